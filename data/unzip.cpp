#include "data/unzip.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <isa-l/igzip_lib.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn::data {
namespace {

/// ISA-L's inflate, faster than zlib's: only one thread can unpack an array.
class Inflater {
 public:
  Inflater() { isal_inflate_init(&state_); }

  void give(std::span<std::byte> input) {
    state_.next_in = reinterpret_cast<std::uint8_t*>(input.data());
    state_.avail_in = static_cast<std::uint32_t>(input.size());
  }
  [[nodiscard]] bool needs_input() const { return state_.avail_in == 0; }
  [[nodiscard]] bool has_ended() const { return state_.block_state == ISAL_BLOCK_FINISH; }
  /// Unpacks into the beginning of `out`; returns the length, or no value if the data are damaged.
  std::optional<std::size_t> take(std::span<std::byte> out) {
    state_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    state_.avail_out = static_cast<std::uint32_t>(out.size());
    if (isal_inflate(&state_) != ISAL_DECOMP_OK) return std::nullopt;
    return out.size() - state_.avail_out;
  }

 private:
  inflate_state state_;
};

[[noreturn]] void damaged(const File& archive, const ZipMember& member) {
  throw DataError(archive.path().string() + " is damaged or truncated (" + json_quoted(member.name) +
                  "): copy it again");
}

}  // namespace

void unzip(const File& archive, const ZipMember& member, const std::filesystem::path& path) {
  constexpr std::size_t kPiece = 1 << 20;
  File out(path, File::Mode::kReplace);
  Inflater inflater;
  std::vector<std::byte> input(kPiece), output(kPiece);
  std::uint64_t read = 0, written = 0;
  std::uint32_t crc = 0;
  while (!inflater.has_ended()) {
    const bool has_input = read < member.stored_bytes || !inflater.needs_input();
    if (inflater.needs_input() && has_input) {
      const auto piece = std::span(input).first(std::min<std::uint64_t>(kPiece, member.stored_bytes - read));
      archive.read_at(member.begin + read, piece);
      inflater.give(piece);
      read += piece.size();
    }
    const auto n = inflater.take(output);
    const bool stuck = !has_input && n == 0U && !inflater.has_ended();
    if (!n || stuck || *n > member.bytes - written) damaged(archive, member);
    const auto piece = std::span(output).first(*n);
    crc = crc32_gzip(piece, crc);
    out.write_at(written, piece);
    written += *n;
  }
  if (written != member.bytes || crc != member.crc) damaged(archive, member);
}

}  // namespace mn::data

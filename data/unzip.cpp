#include "data/unzip.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <zlib.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn::data {
namespace {

/// zlib's state; inflateEnd() at the end.
class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw DataError("cannot start zlib");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  void give(std::span<std::byte> input) {
    stream_.next_in = reinterpret_cast<Bytef*>(input.data());
    stream_.avail_in = static_cast<uInt>(input.size());
  }
  [[nodiscard]] bool needs_input() const { return stream_.avail_in == 0; }
  /// Fills a part of `out`; its length. Sets `code` to zlib's.
  std::size_t take(std::span<std::byte> out, int& code) {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    code = inflate(&stream_, Z_NO_FLUSH);
    return out.size() - stream_.avail_out;
  }

 private:
  z_stream stream_ = {};
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
  for (int code = Z_OK; code != Z_STREAM_END;) {
    if (inflater.needs_input() && read < member.stored_bytes) {
      const auto piece = std::span(input).first(std::min<std::uint64_t>(kPiece, member.stored_bytes - read));
      archive.read_at(member.begin + read, piece);
      inflater.give(piece);
      read += piece.size();
    }
    const std::size_t n = inflater.take(output, code);
    const bool stuck = code != Z_OK && code != Z_STREAM_END;
    if (stuck || n > member.bytes - written) damaged(archive, member);
    const auto piece = std::span(output).first(n);
    crc = crc32_gzip(piece, crc);
    out.write_at(written, piece);
    written += n;
  }
  if (written != member.bytes || crc != member.crc) damaged(archive, member);
}

}  // namespace mn::data

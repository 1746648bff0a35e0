#include "data/token_scratch.hpp"

#include <algorithm>
#include <cstring>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>

namespace mn::data {
namespace {

constexpr std::int64_t kBlockTokens = 1 << 18;
constexpr std::size_t kCrcBytes = sizeof(std::uint32_t);

}  // namespace

void TokenWriter::add(std::span<const std::int32_t> tokens) {
  for (const std::int32_t& token : tokens) {
    // On a little-endian machine, the low bytes come first.
    const auto* bytes = reinterpret_cast<const std::byte*>(&token);
    block_.insert(block_.end(), bytes, bytes + width_);
    if (++count_ % kBlockTokens == 0) write_block();
  }
}

void TokenWriter::write_block() {
  const std::uint32_t crc = crc32c(block_);
  file_.write(block_);
  file_.write(std::as_bytes(std::span(&crc, 1)));
  block_.clear();
}

std::int64_t TokenWriter::finish() {
  if (!block_.empty()) write_block();
  file_.commit();
  return count_;
}

void read_tokens(const std::filesystem::path& path, std::size_t width, std::int64_t count, std::int64_t first,
                 std::span<std::byte> out) {
  const File file(path, File::Mode::kRead);
  std::vector<std::byte> block;
  for (std::int64_t at = first; !out.empty();) {
    const std::int64_t number = at / kBlockTokens;
    const std::int64_t tokens = std::min(kBlockTokens, count - number * kBlockTokens);
    // Whole blocks, because each has one checksum.
    block.resize(static_cast<std::size_t>(tokens) * width + kCrcBytes);
    file.read_at(static_cast<std::uint64_t>(number) * (kBlockTokens * width + kCrcBytes), block);
    const auto values = std::span(block).first(block.size() - kCrcBytes);
    std::uint32_t crc;
    std::memcpy(&crc, block.data() + values.size(), kCrcBytes);
    if (crc != crc32c(values)) {
      throw DataError(path.string() + " is damaged: remove the output folder of the conversion, and start again");
    }
    const auto found = values.subspan(static_cast<std::size_t>(at - number * kBlockTokens) * width);
    const std::size_t bytes = std::min(found.size(), out.size());
    std::memcpy(out.data(), found.data(), bytes);
    out = out.subspan(bytes);
    at = (number + 1) * kBlockTokens;
  }
}

}  // namespace mn::data

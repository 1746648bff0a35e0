/// Files of tokens in the scratch folder, between the two passes of a conversion.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include <mn/core/file.hpp>

namespace mn::data {

/// Writes a file of tokens of `width` bytes each, little endian, in blocks with a CRC-32C after each.
class TokenWriter {
 public:
  TokenWriter(const std::filesystem::path& path, std::size_t width) : file_(path), width_(width) {}
  void add(std::span<const std::int32_t> tokens);
  /// To stable storage, under the file's name. Returns the number of tokens.
  std::int64_t finish();

 private:
  void write_block();

  AtomicFile file_;
  std::size_t width_;
  std::vector<std::byte> block_;
  std::int64_t count_ = 0;
};

/// Reads tokens [first, first + n) of a file of `count` tokens into `out`, which has n × width bytes. Throws DataError
/// that names a damaged file.
void read_tokens(const std::filesystem::path& path, std::size_t width, std::int64_t count, std::int64_t first,
                 std::span<std::byte> out);

}  // namespace mn::data

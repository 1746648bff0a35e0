/// A conversion's files of tokens in the scratch folder.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <mn/core/file.hpp>

#include "data/text_files.hpp"

namespace mn::data {

/// Writes a file of little-endian tokens of `width` bytes, in blocks. A CRC-32C follows each block.
class TokenWriter {
 public:
  TokenWriter(const std::filesystem::path& path, std::size_t width) : file_(path), width_(width) {}
  void add(std::span<const std::int32_t> tokens);
  /// Writes the remaining tokens to stable storage, and gives the file its name. Returns the number of tokens.
  std::int64_t finish();

 private:
  void write_block();

  AtomicFile file_;
  std::size_t width_;
  std::vector<std::byte> block_;
  std::int64_t count_ = 0;
};

/// Reads tokens [first, first + n) of a file of `count` tokens into `out`, which has n × width bytes. If the file is
/// damaged, throws a DataError that names it.
void read_tokens(const std::filesystem::path& path, std::size_t width, std::int64_t count, std::int64_t first,
                 std::span<std::byte> out);

/// Documents for training have part 0, documents for validation part 1.
inline constexpr std::size_t kParts = 2;

/// The files in the scratch folder: for each piece its words with counts, its tokens by parts, and their numbers.
struct TokenScratch {
  std::filesystem::path folder;
  std::vector<TextPiece> pieces;
  std::vector<std::array<std::int64_t, kParts>> counts = {};  ///< [pieces] number of tokens of each part

  [[nodiscard]] std::filesystem::path words(std::size_t piece) const { return file("words-", piece); }
  [[nodiscard]] std::filesystem::path count(std::size_t piece) const { return file("count-", piece); }
  [[nodiscard]] std::filesystem::path tokens(std::size_t piece, std::size_t part) const {
    return file("tokens-", kParts * piece + part);
  }
  /// For each token of the packed samples the value of the field "documents".
  [[nodiscard]] std::filesystem::path documents(std::size_t piece, std::size_t part) const {
    return file("documents-", kParts * piece + part);
  }

 private:
  [[nodiscard]] std::filesystem::path file(const char* name, std::size_t number) const {
    return folder / (name + std::to_string(number));
  }
};

}  // namespace mn::data

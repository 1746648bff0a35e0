/// Writes and reads a conversion's files of tokens in the scratch folder, and makes samples of neighboring tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <mn/core/buffer.hpp>
#include <mn/core/file.hpp>
#include <mn/data/vocabulary.hpp>

#include "data/fixed_conversion.hpp"
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

/// The files in the scratch folder: for each piece of the texts its words with counts, tokens, and number of tokens.
struct TokenScratch {
  std::filesystem::path folder;
  std::vector<TextPiece> pieces;
  std::vector<std::int64_t> counts = {};  ///< [pieces] number of tokens

  [[nodiscard]] std::filesystem::path words(std::size_t piece) const { return file("words-", piece); }
  [[nodiscard]] std::filesystem::path tokens(std::size_t piece) const { return file("tokens-", piece); }
  [[nodiscard]] std::filesystem::path count(std::size_t piece) const { return file("count-", piece); }

 private:
  [[nodiscard]] std::filesystem::path file(const char* name, std::size_t piece) const {
    return folder / (name + std::to_string(piece));
  }
};

/// The smallest dtype for a vocabulary of `vocabulary` tokens.
[[nodiscard]] DType token_dtype(std::int32_t vocabulary);

/// Samples of a part of the tokens of each text. These tokens make one stream, text after text. A sample has `context`
/// tokens of the stream and the token that follows, which is also the first token of the next sample.
class TokenSamples final : public SampleSource {
 public:
  /// Takes the tokens of each text from fraction `first` to fraction `last`.
  TokenSamples(TokenScratch scratch, const Vocabulary& vocabulary, std::int64_t context, double first, double last);
  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] const SampleSpec& spec() const override { return spec_; }
  [[nodiscard]] std::string name() const override { return "the texts"; }
  void read(std::int64_t first, std::int64_t last, RawSamples& samples) const override;

 private:
  static constexpr std::size_t kSingleToken = std::numeric_limits<std::size_t>::max();
  /// Consecutive tokens of the stream: a piece's tokens from `first` on. If `piece` is kSingleToken: the token `first`.
  struct Stretch {
    std::size_t piece;
    std::int64_t first;
  };

  void add(std::size_t piece, std::int64_t first, std::int64_t count);
  std::size_t add_text(std::size_t p, double first, double last);
  void read_stream(std::int64_t first, std::span<std::byte> out, std::size_t width) const;

  TokenScratch scratch_;
  std::int64_t context_;
  std::optional<std::int32_t> begin_of_text_, end_of_text_;
  std::vector<Stretch> stretches_;
  std::vector<std::int64_t> begins_ = {0};  // [stretches + 1] offset in the stream
  SampleSpec spec_;
};

}  // namespace mn::data

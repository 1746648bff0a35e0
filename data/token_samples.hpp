/// Makes samples from a conversion's files of tokens.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <mn/core/buffer.hpp>
#include <mn/data/vocabulary.hpp>

#include "data/fixed_conversion.hpp"
#include "data/token_scratch.hpp"

namespace mn::data {

/// The smallest dtype for a vocabulary of `vocabulary` tokens.
[[nodiscard]] DType token_dtype(std::int32_t vocabulary);

/// What the samples of a split take from a file.
struct FileShare {
  bool is_document = false;  ///< the file is one document; else the split takes all documents of its part
  bool adds_ends = false;    ///< begin-of-text and end-of-text tokens surround the document
  std::size_t part = 0;      ///< part in which the document's tokens lie
  double first = 0;          ///< the split takes the document's tokens from this fraction
  double last = 0;           ///< to this fraction
};

/// The field of samples that holds tokens.
[[nodiscard]] FieldSpec tokens_field(const Vocabulary& vocabulary, std::int64_t context);

/// Samples of one stream of tokens, document after document. A sample has `context` tokens of the stream and the token
/// that follows, which is also the first token of the next sample.
class TokenSamples final : public SampleSource {
 public:
  /// Takes the documents of `part`, and of each file that is one document what shares[file] tells.
  TokenSamples(TokenScratch scratch, const Vocabulary& vocabulary, std::int64_t context, std::size_t part,
               std::span<const FileShare> shares);
  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] const SampleSpec& spec() const override { return spec_; }
  [[nodiscard]] std::string name() const override { return "the texts"; }
  void read(std::int64_t first, std::int64_t last, RawSamples& samples) const override;

 private:
  static constexpr std::size_t kSingleToken = std::numeric_limits<std::size_t>::max();
  /// Consecutive tokens of the stream: a piece's tokens from `first` on. If `piece` is kSingleToken: the token `first`.
  struct Stretch {
    std::size_t piece;
    std::size_t part;
    std::int64_t first;
  };

  void add(Stretch stretch, std::int64_t count);
  std::size_t add_document(std::size_t p, const FileShare& share);
  void read_stream(std::int64_t first, std::span<std::byte> out, std::size_t width) const;

  TokenScratch scratch_;
  std::int64_t context_;
  std::optional<std::int32_t> begin_of_text_, end_of_text_;
  std::vector<Stretch> stretches_;
  std::vector<std::int64_t> begins_ = {0};  // [stretches + 1] offset in the stream
  SampleSpec spec_;
};

/// Samples that DocumentPacker made, of one part of the documents. Their fields are tokens_field() and
/// documents_field().
class PackedSamples final : public SampleSource {
 public:
  PackedSamples(TokenScratch scratch, SampleSpec spec, std::size_t part);
  [[nodiscard]] std::int64_t size() const override { return begins_.back(); }
  [[nodiscard]] const SampleSpec& spec() const override { return spec_; }
  [[nodiscard]] std::string name() const override { return "the documents"; }
  void read(std::int64_t first, std::int64_t last, RawSamples& samples) const override;

 private:
  TokenScratch scratch_;
  SampleSpec spec_;
  std::size_t part_;
  std::vector<std::int64_t> begins_ = {0};  // [pieces + 1] first sample of each piece
};

}  // namespace mn::data

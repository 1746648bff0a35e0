/// Packs documents into samples of equal length. Source: best-fit packing (Ding et al. 2024, arXiv:2404.10830).
///
/// (1) A document lies in one sample, in the sample whose room it fills best. A document that is longer than a sample
///     is cut, and the last token of a part is also the first token of the next part.
/// (2) Each token has a number: |number| counts the documents of the sample from 1, and 0 marks the tokens that fill up
///     the sample. Positive numbers mark the tokens to predict: no document's first token, and no prompt.
/// (3) Samples are a function of the documents alone.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "data/token_scratch.hpp"

namespace mn::data {

class DocumentPacker {
 public:
  /// Samples of `length` tokens, with numbers of their documents, go to `tokens` and `documents`.
  DocumentPacker(std::int64_t length, TokenWriter& tokens, TokenWriter& documents)
      : length_(static_cast<std::size_t>(length)), tokens_(tokens), documents_(documents) {}

  /// Adds a document. A token with `is_prompt` is not to be predicted; if `is_prompt` is empty, no token is.
  void add(std::span<const std::int32_t> tokens, std::span<const std::uint8_t> is_prompt = {});
  /// Writes the remaining samples.
  void flush();

 private:
  struct Sample {
    std::vector<std::int32_t> tokens, documents;
    std::int32_t count = 0;  // documents
  };

  void add_part(std::span<const std::int32_t> tokens, std::span<const std::uint8_t> is_prompt);
  /// The sample with the least room for `tokens` tokens; a new one if none has enough.
  Sample& sample_for(std::size_t tokens);

  std::size_t length_;
  TokenWriter& tokens_;
  TokenWriter& documents_;
  std::vector<Sample> samples_;
  std::multimap<std::size_t, std::size_t> by_room_;  // room for tokens → index of the sample
};

}  // namespace mn::data

/// Encodes a piece of a file to files of tokens, for `mnshard tokens`.
#pragma once

#include <cstddef>

#include <mn/data/vocabulary.hpp>

#include "data/convert.hpp"
#include "data/token_scratch.hpp"
#include "data/token_sources.hpp"

namespace mn::data {

struct EncodeInputs {
  const TokenSource& source;
  const TokenOptions& options;
  const Vocabulary& vocabulary;
  std::size_t part;  ///< part of a file that is one document; else, each document has its own part
};

/// Writes the tokens of a piece, and their number.
void encode_piece(const EncodeInputs& inputs, const TokenScratch& scratch, std::size_t piece);

/// The field of packed samples that numbers documents (DocumentPacker).
[[nodiscard]] FieldSpec documents_field(std::int64_t context);

}  // namespace mn::data

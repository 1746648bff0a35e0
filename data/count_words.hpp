/// Counts the words of texts, for the vocabulary that `mnshard tokens` makes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "data/convert.hpp"
#include "data/token_sources.hpp"

namespace mn::data {

using WordCounts = std::map<std::string, std::int64_t>;

/// Counts the words of a piece, as a vocabulary of merges cuts them, or, if options.vocabulary is "characters", the
/// characters. Throws a DataError that names the file if it is damaged or, for characters, not UTF-8.
[[nodiscard]] WordCounts count_words(const TokenSource& source, const TextPiece& piece, const TokenOptions& options);

}  // namespace mn::data

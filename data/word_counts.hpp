/// How often each word or character occurs in a piece of a text, and files of such counts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "data/text_files.hpp"

namespace mn::data {

using WordCounts = std::map<std::string, std::int64_t>;

/// Throws DataError that names the first byte that is not UTF-8.
[[nodiscard]] WordCounts count_characters(const std::filesystem::path& file, const TextPiece& piece);
/// Counts words as vocabularies of merges cut them.
[[nodiscard]] WordCounts count_words(const std::filesystem::path& file, const TextPiece& piece);

void write_counts(const std::filesystem::path& path, const WordCounts& counts);
/// Adds the counts of a file of write_counts().
void add_counts(const std::filesystem::path& path, WordCounts& counts);

}  // namespace mn::data

#include "data/count_words.hpp"

#include <functional>
#include <string_view>
#include <unordered_map>

#include <mn/core/error.hpp>

#include "data/documents.hpp"
#include "data/parquet.hpp"

namespace mn::data {
namespace {

using Counts = std::unordered_map<std::string_view, std::int64_t>;

void add(const Counts& counts, WordCounts& words) {
  for (const auto& [word, count] : counts) words[std::string(word)] += count;
}

/// Counts the characters of a text. Throws a DataError that begins with `source` and names the first byte that is not
/// UTF-8; the text begins at byte `begin`.
void count_characters(std::string_view text, const std::string& source, std::int64_t begin, WordCounts& words) {
  Counts found;
  for (std::size_t at = 0; at < text.size();) {
    const int length = first_character(text.substr(at));
    if (length < 1) {
      throw DataError(source + " is not UTF-8 at byte " + std::to_string(begin + static_cast<std::int64_t>(at)) +
                          ": give --vocabulary bytes or bpe, or convert it with iconv",
                      true);
    }
    ++found[text.substr(at, static_cast<std::size_t>(length))];
    at += static_cast<std::size_t>(length);
  }
  add(found, words);
}

void count_merged_words(std::string_view text, WordCounts& words) {
  Counts found;
  while (!text.empty()) {
    const std::size_t length = first_word(text);
    ++found[text.substr(0, length)];
    text.remove_prefix(length);
  }
  add(found, words);
}

}  // namespace

WordCounts count_words(const TokenSource& source, const TextPiece& piece, const TokenOptions& options) {
  WordCounts words;
  const bool of_characters = options.vocabulary == "characters";
  const Vocabulary cutter = Vocabulary::of_merges({});
  std::int64_t at = piece.begin;
  const auto count = [&](std::string_view text) {
    if (of_characters) {
      count_characters(text, source.path.string(), at, words);
    } else {
      count_merged_words(text, words);
    }
    at += static_cast<std::int64_t>(text.size());
  };
  if (source.kind == SourceKind::kJsonLines) {
    const auto count_parts = [&](const Document& document) {
      for (const DocumentPart& part : document) count(part.text);
    };
    read_json_lines(source.path, piece, options.field, find_chat_template(options.chat), count_parts);
  } else if (source.kind == SourceKind::kParquet) {
    read_parquet(source.path, piece, options.field, count);
  } else {
    const auto complete = [&](std::string_view text) {
      return of_characters ? complete_characters(text) : cutter.complete(text);
    };
    read_text(source.path, piece, options.any_bytes, complete, count);
  }
  return words;
}

}  // namespace mn::data

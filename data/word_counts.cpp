// A file of counts has for each word its length, its bytes, and its count; numbers are int64.
#include "data/word_counts.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/vocabulary.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;

}  // namespace

WordCounts count_characters(const fs::path& file, const TextPiece& piece) {
  WordCounts found;
  std::int64_t at = piece.begin;
  const auto take = [&](std::string_view text) {
    while (!text.empty()) {
      const int length = first_character(text);
      if (length < 1) {
        throw DataError(file.string() + " is not UTF-8 at byte " + std::to_string(at) +
                            ": give --vocabulary bytes or bpe, or convert it with iconv",
                        true);
      }
      ++found[std::string(text.substr(0, static_cast<std::size_t>(length)))];
      text.remove_prefix(static_cast<std::size_t>(length));
      at += length;
    }
  };
  const auto complete = [](std::string_view text) {
    std::size_t end = text.size();  // a character has at most 4 bytes
    for (std::size_t back = 1; back <= std::min<std::size_t>(4, text.size()); ++back) {
      if (first_character(text.substr(text.size() - back)) == -2) end = text.size() - back;
    }
    return end;
  };
  read_complete_text(file, piece, complete, take);
  return found;
}

WordCounts count_words(const fs::path& file, const TextPiece& piece) {
  WordCounts words;
  const Vocabulary cutter = Vocabulary::of_merges({});
  const auto take = [&](std::string_view text) {
    std::unordered_map<std::string_view, std::int64_t> found;
    while (!text.empty()) {
      const std::size_t length = first_word(text);
      ++found[text.substr(0, length)];
      text.remove_prefix(length);
    }
    for (const auto& [word, count] : found) words[std::string(word)] += count;
  };
  read_complete_text(
      file, piece, [&](std::string_view text) { return cutter.complete(text); }, take);
  return words;
}

void write_counts(const fs::path& path, const WordCounts& counts) {
  std::string text;
  const auto add = [&](std::int64_t number) { text.append(reinterpret_cast<const char*>(&number), sizeof number); };
  for (const auto& [word, count] : counts) {
    add(std::ssize(word));
    text += word;
    add(count);
  }
  write_file(path, text);
}

void add_counts(const fs::path& path, WordCounts& counts) {
  const std::string text = read_file(path);
  std::size_t at = 0;
  const auto next = [&] {
    std::int64_t number = 0;
    std::memcpy(&number, text.data() + at, sizeof number);
    at += sizeof number;
    return number;
  };
  while (at < text.size()) {
    const auto length = static_cast<std::size_t>(next());
    std::int64_t& count = counts[text.substr(at, length)];
    at += length;
    count += next();
  }
}

}  // namespace mn::data

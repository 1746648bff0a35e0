/// Cuts text into words as the patterns of known tokenizers do. Byte pairs are merged within words only.
#pragma once

#include <cstdint>
#include <string_view>

namespace mn::data {

/// The properties in which the patterns of the known tokenizers differ.
struct WordPattern {
  enum class Contractions : std::uint8_t {
    kNone,
    kLower,    ///< 's, 't, 're, 've, 'm, 'll and 'd are words
    kAnyCase,  ///< so are 'S, 'T, …
    kSuffix,   ///< 's, 'S, … belong to the word before
  };

  std::string_view name;   ///< gpt2, llama3, qwen2, qwen3.5, o200k or tekken
  std::string_view regex;  ///< the regular expression in tokenizer.json or of tiktoken
  Contractions contractions = Contractions::kAnyCase;
  bool has_only_blanks = false;    ///< only a blank may begin a word of letters or digits; digits have no limit
  bool splits_cases = false;       ///< a word of letters has no upper case after lower case
  bool has_marks = false;          ///< marks are letters
  std::uint8_t digits = 3;         ///< longest word of digits
  std::string_view tail = "\r\n";  ///< characters that signs take from what follows
};

/// The pattern of this name; null if there is none.
[[nodiscard]] const WordPattern* named_pattern(std::string_view name) noexcept;
/// The known pattern that is written as `regex`; null if it is unknown.
[[nodiscard]] const WordPattern* find_pattern(std::string_view regex) noexcept;

/// Length in bytes of the first word of a text; 0 if the text is empty.
[[nodiscard]] std::size_t first_word(const WordPattern& pattern, std::string_view text) noexcept;

}  // namespace mn::data

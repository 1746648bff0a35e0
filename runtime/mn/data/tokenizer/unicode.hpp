/// The categories of Unicode characters in UTF-8 text, and normalization form C (Unicode Standard Annex 15).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mn::data {

/// Bits of a character's category. A character without any of them is a sign.
enum Category : std::uint8_t {
  kUpper = 1,        ///< Lu, Lt
  kLower = 2,        ///< Ll
  kOtherLetter = 4,  ///< Lm, Lo
  kMark = 8,         ///< M
  kNumber = 16,      ///< N
  kSpace = 32,       ///< White_Space
  kWord = 64,        ///< a pattern's \w: letters, marks, digits, connecting punctuation
  kTextEnd = 128,    ///< no character: the end of the text
};
inline constexpr std::uint8_t kLetter = kUpper | kLower | kOtherLetter;

struct Character {
  std::uint8_t category = kTextEnd;
  std::uint8_t bytes = 0;  ///< length in UTF-8; a byte that is not UTF-8 is a sign
};

/// The character that begins at offset `at` of a text.
[[nodiscard]] Character character_at(std::string_view text, std::size_t at) noexcept;

/// The text in normalization form C. Bytes that are not UTF-8 stay as they are.
[[nodiscard]] std::string nfc(std::string_view text);

}  // namespace mn::data

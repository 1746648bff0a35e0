/// Tokens that a tokenizer finds in text before it cuts the text into words.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mn::data {

struct AddedToken {
  std::string content;
  std::int32_t token = 0;
  bool single_word = false;  ///< only between characters that are not of words
  bool takes_left = false;   ///< takes the blanks before (lstrip)
  bool takes_right = false;  ///< takes the blanks after (rstrip)
};

/// A part of a text: an added token, or text without added tokens.
struct TextPart {
  std::string_view text;
  std::int32_t token = -1;  ///< −1: text
};

/// Finds the leftmost token and, of several that begin there, the longest.
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);
  /// Cuts a text at the added tokens.
  [[nodiscard]] std::vector<TextPart> split(std::string_view text) const;
  [[nodiscard]] const std::vector<AddedToken>& all() const noexcept { return tokens_; }

 private:
  [[nodiscard]] const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // in the order of their content
  std::array<bool, 256> begins_{};  // whether a token begins with the byte
};

}  // namespace mn::data

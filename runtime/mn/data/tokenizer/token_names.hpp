/// How the files of tokenizers write tokens, and what bounds their numbers.
#pragma once

#include <cstdint>
#include <string>

namespace mn::data {

/// The character that stands for a byte in byte-level vocabularies (GPT-2's bytes_to_unicode()).
[[nodiscard]] std::string byte_level_name(int byte);
/// The bytes of a byte-level token. A token with other characters, such as an added token, stands for itself.
[[nodiscard]] std::string byte_level_text(const std::string& name);
/// The token of a byte in vocabularies of characters: <0x00> to <0xFF>.
[[nodiscard]] std::string byte_fallback_name(int byte);
/// The text of a token in vocabularies of characters, in which kMetaspace stands for a blank.
[[nodiscard]] std::string metaspace_text(std::string name);

/// Throws ArgumentError unless a file with `tokens` tokens may have a token with this number: tables have entries for
/// all smaller numbers, of which only a few thousand may have no token.
void check_number(std::int64_t number, std::size_t tokens);

}  // namespace mn::data

/// Reads .tiktoken files: lines of a token in base64 and its number. The files name neither the pattern nor the special
/// tokens; a table of known encodings has them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <mn/data/tokenizer/tokenizer.hpp>

namespace mn::data {

/// True if a file's content begins like a .tiktoken file.
[[nodiscard]] bool is_tiktoken(std::string_view content);
/// The known encoding of a file: the one with which the file's name begins or else, by the number of its tokens. Throws
/// ArgumentError if there is none.
[[nodiscard]] std::string tiktoken_encoding(std::string_view content, std::string_view file_name);
/// The tokenizer of a file's content. Throws ArgumentError if the content is bad or the encoding unknown.
[[nodiscard]] std::shared_ptr<const Tokenizer> read_tiktoken(std::string_view content, std::string_view encoding);

}  // namespace mn::data

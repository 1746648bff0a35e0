/// Reads texts in files, raw or gzip, in pieces that different threads can read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace mn::data {

/// A piece of a text: bytes [begin, end) of a file. The piece of a gzip file is the whole unpacked text.
struct TextPiece {
  std::size_t file = 0;  ///< position in the list of files
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool is_packed = false;
};

/// Cuts the files into pieces of about `piece_bytes`, in order; a gzip file is one piece. A piece begins before a blank
/// that follows another character, because there a word begins in any vocabulary. In a text without blanks it begins at
/// a character. If a file is missing, throws a DataError that names it; so too, unless `any_bytes`, if the first 64 KiB
/// of a file are not UTF-8. read_text() checks the rest.
[[nodiscard]] std::vector<TextPiece> cut_texts(const std::vector<std::filesystem::path>& files,
                                               std::int64_t piece_bytes, bool any_bytes);

/// Throws DataError unless `head`, the beginning of a file, is UTF-8 text. `remedy` ends the message.
void check_text(const std::filesystem::path& file, std::string_view head, std::string_view remedy = {});
/// Throws as check_text() does if `head` begins another kind of file, or text in UTF-16 or UTF-32. Accepts all other
/// bytes, because a list of file names may have any bytes.
void check_names(const std::filesystem::path& file, std::string_view head);
/// Number of bytes of a file's beginning that check_text() gets.
inline constexpr std::int64_t kHeadBytes = 64 << 10;

/// Reads a piece and calls use(text) for consecutive parts of the piece, of some MiB each. complete(text) must return
/// the length of the beginning of `text` that can be encoded alone. Each part but the last ends there, so that no token
/// crosses the end. Throws a DataError that names the file if it can't be read to the piece's end or, unless
/// `any_bytes`, if the piece has zero bytes or bytes that are not UTF-8.
void read_text(const std::filesystem::path& file, const TextPiece& piece, bool any_bytes,
               const std::function<std::size_t(std::string_view)>& complete,
               const std::function<void(std::string_view)>& use);

}  // namespace mn::data

/// Texts in files, raw or gzip, in pieces for different threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace mn::data {

/// Bytes [begin, end) of a file; for a gzip file, its whole unpacked text.
struct TextPiece {
  std::size_t file = 0;  ///< its number
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool is_packed = false;
};

/// Pieces of about `piece_bytes`, in order; a gzip file is one piece. A piece begins before a blank that follows
/// another character, where words of any vocabulary begin, or, in a text without blanks, at a character. Throws
/// DataError that names a missing file or, unless `any_bytes`, a file with a first 64 KiB that is not UTF-8.
[[nodiscard]] std::vector<TextPiece> cut_texts(const std::vector<std::filesystem::path>& files,
                                               std::int64_t piece_bytes, bool any_bytes);

/// Throws DataError unless `head`, the beginning of a file, is UTF-8 text. `remedy` ends the message.
void check_text(const std::filesystem::path& file, std::string_view head, std::string_view remedy = {});
/// Throws as check_text() if `head` is of another kind of file, or text in UTF-16 or UTF-32. Accepts all other bytes,
/// because names of files may have any.
void check_names(const std::filesystem::path& file, std::string_view head);
/// Bytes of a file's beginning for check_text().
inline constexpr std::int64_t kHeadBytes = 64 << 10;

/// Calls use(text) for consecutive texts of some MiB that end between tokens: complete(text) is the length of the
/// beginning of `text` that can be encoded alone. Only the last text of the piece may end elsewhere. Throws DataError
/// that names a file that can't be read to the piece's end.
void read_text(const std::filesystem::path& file, const TextPiece& piece,
               const std::function<std::size_t(std::string_view)>& complete,
               const std::function<void(std::string_view)>& use);

}  // namespace mn::data

/// Texts in files, raw or gzip, in pieces that different threads read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace mn::data {

/// Bytes [begin, end) of a file; of a gzip file all that it unpacks to.
struct TextPiece {
  std::size_t file = 0;  ///< its number
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool is_packed = false;
};

/// Pieces of about that many bytes, in order; a gzip file is one piece. Pieces begin before a blank that follows
/// another character, where words of any vocabulary begin, or, in texts without blanks, where a character does. Throws
/// DataError that names a file that is not there, or, unless `any_bytes`, whose first 64 KiB are not UTF-8.
[[nodiscard]] std::vector<TextPiece> cut_texts(const std::vector<std::filesystem::path>& files,
                                               std::int64_t piece_bytes, bool any_bytes);

/// Calls use(text) for texts of some MiB, one after another. Throws DataError that names a file that can't be read to
/// the piece's end.
void read_text(const std::filesystem::path& file, const TextPiece& piece,
               const std::function<void(std::string_view)>& use);

/// The same with texts that end where tokens may: complete(text) is the length of such a beginning of a text. Only the
/// last text of the piece may end elsewhere.
void read_complete_text(const std::filesystem::path& file, const TextPiece& piece,
                        const std::function<std::size_t(std::string_view)>& complete,
                        const std::function<void(std::string_view)>& use);

}  // namespace mn::data

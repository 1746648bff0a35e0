/// Reads texts in files, raw or gzip, in pieces that different threads can read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>
#include <vector>

namespace mn::data {

/// A piece of a text: bytes [begin, end) of a file. A gzip file has one piece, the whole unpacked text.
struct TextPiece {
  std::size_t file = 0;  ///< position in the list of files
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool is_packed = false;
};

/// Cuts the files into pieces of about `piece_bytes`, in order; a gzip file is one piece. A piece begins before a blank
/// that follows another character, because a word begins there in any vocabulary. In a text without blanks, a piece
/// begins at any character. If a file is missing, throws a DataError that names it. Unless `any_bytes` is true, also
/// throws one if the first 64 KiB of a file are not UTF-8; read_text() checks the rest of the file.
[[nodiscard]] std::vector<TextPiece> cut_texts(const std::vector<std::filesystem::path>& files,
                                               std::int64_t piece_bytes, bool any_bytes);

/// Opens a list of file names or class names. Throws DataError if the list can't be opened. Unless the list is a pipe,
/// also throws one if the file is no text, or text in UTF-16 or UTF-32. Accepts all other bytes, because file names may
/// have any bytes.
[[nodiscard]] std::ifstream open_list(const std::filesystem::path& path);
/// The byte order mark with which some editors begin UTF-8 text.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Reads a piece and calls use(text) for consecutive parts of the piece, of some MiB each. complete(text) must return
/// the length of the beginning of `text` whose tokens do not depend on what follows. Each part but the last ends after
/// this length, so that no token crosses the end of a part. If the file can't be read to the piece's end, throws a
/// DataError that names the file. Unless `any_bytes` is true, also throws one if the piece has zero bytes or bytes that
/// are not UTF-8.
void read_text(const std::filesystem::path& file, const TextPiece& piece, bool any_bytes,
               const std::function<std::size_t(std::string_view)>& complete,
               const std::function<void(std::string_view)>& use);

}  // namespace mn::data

/// Reads texts in files, raw or gzip, in pieces that different threads can read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>
#include <vector>

#include <mn/data/vocabulary.hpp>

namespace mn::data {

/// Bytes [begin, end) of a file. A gzip file has one piece, the whole unpacked text.
struct TextPiece {
  std::size_t file = 0;  ///< index in the list of files
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool is_packed = false;
};

/// Cuts the files into pieces of about `piece_bytes`, in order; a gzip file is one piece. A piece begins where
/// vocabulary.can_cut() allows or, in 64 KiB without such an offset, at any character. Throws a DataError that names a
/// missing file or, unless `any_bytes` is true, a file whose first 64 KiB are not UTF-8; read_text() checks the rest.
[[nodiscard]] std::vector<TextPiece> cut_texts(const std::vector<std::filesystem::path>& files,
                                               const Vocabulary& vocabulary, std::int64_t piece_bytes, bool any_bytes);

/// Opens a list of file names or class names. Throws DataError if it can't be opened or, unless it is a pipe, if it is
/// no text, or text in UTF-16 or UTF-32. Accepts all other bytes, because file names may have any bytes.
[[nodiscard]] std::ifstream open_list(const std::filesystem::path& path);
/// The byte order mark with which some editors begin UTF-8 text.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Reads a piece and calls use(text) for consecutive parts of it, of some MiB each. complete(text) must return the
/// length of the beginning of `text` whose tokens do not depend on what follows. Each part except the last ends there,
/// so no token crosses the end of a part. Throws a DataError that names the file if it can't be read to the piece's end
/// or, unless `any_bytes` is true, if the piece has zero bytes or is not UTF-8.
void read_text(const std::filesystem::path& file, const TextPiece& piece, bool any_bytes,
               const std::function<std::size_t(std::string_view)>& complete,
               const std::function<void(std::string_view)>& use);

}  // namespace mn::data

/// Reads texts in files, raw or packed, in pieces that different threads can read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/file.hpp>
#include <mn/data/vocabulary.hpp>

#include "data/unpack.hpp"

namespace mn::data {

/// Bytes [begin, end) of a file; in a Parquet file, row groups, and in a Megatron file, documents. A packed file has
/// one piece, the whole content.
struct TextPiece {
  std::size_t file = 0;  ///< index in the list of files
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool is_packed = false;
};

inline constexpr std::int64_t kHeadBytes = 64 << 10;  ///< checked before work begins

/// Reads the bytes of a piece from beginning to end. If the file is packed, unpacks it.
class PieceReader {
 public:
  PieceReader(const std::filesystem::path& file, const TextPiece& piece);
  /// The next bytes, at most some MiB; empty at the piece's end. Throws DataError if the file is damaged or can't be
  /// read.
  [[nodiscard]] std::string next();

 private:
  File file_;
  std::unique_ptr<PackedFile> packed_;        // null: the file is not packed
  std::int64_t unpacked_bytes_ = kHeadBytes;  // to unpack next: small at first, for small files and head_of()
  std::int64_t at_, end_;
};

/// The piece with all of file number `number`.
[[nodiscard]] TextPiece whole_file(const std::filesystem::path& file, std::size_t number);

/// The first kHeadBytes bytes of the content.
[[nodiscard]] std::string head_of(const std::filesystem::path& file, TextPiece whole);

/// Cuts file number `number`, a text, into pieces of about `piece_bytes`, and adds them to `pieces`. A packed file is
/// one piece. A piece begins where vocabulary.can_cut() allows or, in 64 KiB without such an offset, at any character.
/// Throws a DataError that names the file unless its first 64 KiB are UTF-8 or `any_bytes` is true; read_text() checks
/// the rest.
void cut_text(const std::filesystem::path& file, std::size_t number, const Vocabulary& vocabulary,
              std::int64_t piece_bytes, bool any_bytes, std::vector<TextPiece>& pieces);

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

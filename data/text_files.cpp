#include "data/text_files.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

#include <zlib.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kReadBytes = 4 << 20;

bool is_gzip(const File& file) {
  unsigned char magic[2] = {};
  if (file.size() < sizeof magic) return false;
  file.read_at(0, std::as_writable_bytes(std::span(magic)));
  return magic[0] == 0x1F && magic[1] == 0x8B;
}

std::string text_at(const File& file, std::int64_t begin, std::int64_t bytes) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file.read_at(static_cast<std::uint64_t>(begin), std::as_writable_bytes(std::span(text)));
  return text;
}

/// Where a piece may begin, from `at` on.
std::int64_t cut_after(const File& file, std::int64_t at, std::int64_t size) {
  constexpr std::int64_t kSearched = 1 << 16;
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  const std::string text = text_at(file, at, std::min(kSearched, size - at));
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (is_blank(text[i]) && !is_blank(text[i - 1])) return at + static_cast<std::int64_t>(i);
  }
  return at + (std::ranges::find_if_not(text, continues) - text.begin());
}

void read_gzip(const fs::path& path, const std::function<void(std::string_view)>& use) {
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw DataError(with_errno("cannot open " + path.string(), errno), true);
  std::string piece(kReadBytes, '\0');
  while (true) {
    const int read = gzread(file.get(), piece.data(), static_cast<unsigned>(kReadBytes));
    int status = Z_OK;
    const char* what = gzerror(file.get(), &status);  // also of a file that is cut off
    if (read < 0 || (status != Z_OK && status != Z_STREAM_END)) {
      throw DataError("cannot read " + path.string() + " to its end: " + what, true);
    }
    if (read == 0) return;
    use(std::string_view(piece).substr(0, static_cast<std::size_t>(read)));
  }
}

}  // namespace

std::vector<TextPiece> cut_texts(const std::vector<fs::path>& files, std::int64_t piece_bytes) {
  std::vector<TextPiece> pieces;
  for (std::size_t f = 0; f < files.size(); ++f) {
    if (!fs::is_regular_file(files[f])) throw DataError("there is no file " + files[f].string(), true);
    const File file(files[f], File::Mode::kRead);
    const auto size = static_cast<std::int64_t>(file.size());
    if (is_gzip(file)) {
      pieces.push_back({.file = f, .end = size, .is_packed = true});
      continue;
    }
    for (std::int64_t begin = 0; begin < size;) {
      const std::int64_t end = begin + piece_bytes < size ? cut_after(file, begin + piece_bytes, size) : size;
      pieces.push_back({.file = f, .begin = begin, .end = end});
      begin = end;
    }
  }
  return pieces;
}

void read_text(const fs::path& path, const TextPiece& piece, const std::function<void(std::string_view)>& use) {
  if (piece.is_packed) return read_gzip(path, use);
  const File file(path, File::Mode::kRead);
  for (std::int64_t at = piece.begin; at < piece.end; at += kReadBytes) {
    use(text_at(file, at, std::min(kReadBytes, piece.end - at)));
  }
}

void read_complete_text(const fs::path& file, const TextPiece& piece,
                        const std::function<std::size_t(std::string_view)>& complete,
                        const std::function<void(std::string_view)>& use) {
  std::string rest;
  read_text(file, piece, [&](std::string_view text) {
    rest += text;
    const std::size_t end = complete(rest);
    use(std::string_view(rest).substr(0, end));
    rest.erase(0, end);
  });
  use(rest);
}

}  // namespace mn::data

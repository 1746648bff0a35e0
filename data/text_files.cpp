#include "data/text_files.hpp"

#include <algorithm>
#include <string>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/file_kind.hpp>
#include <mn/data/gzip_file.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kForce = "; --encoding any takes any bytes";
constexpr std::int64_t kReadBytes = 4 << 20;
constexpr std::int64_t kHeadBytes = 64 << 10;  // checked before work begins

std::string text_at(const File& file, std::int64_t begin, std::int64_t bytes) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file.read_at(static_cast<std::uint64_t>(begin), std::as_writable_bytes(std::span(text)));
  return text;
}

/// The first offset, `at` or later, at which a piece of the text may begin.
std::int64_t cut_after(const File& file, const Vocabulary& vocabulary, std::int64_t at, std::int64_t size) {
  constexpr std::int64_t kSearched = 1 << 16;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  const std::string text = text_at(file, at, std::min(kSearched, size - at));
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (vocabulary.can_cut(text, i)) return at + static_cast<std::int64_t>(i);
  }
  return at + (std::ranges::find_if_not(text, continues) - text.begin());
}

/// Reads the next `bytes` bytes of the text, or fewer at its end.
std::string next_text(GzipFile& file, std::int64_t bytes) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  text.resize(file.read(std::as_writable_bytes(std::span(text))));
  return text;
}

/// Checks the characters of `text`, which lies at offset `begin` of the file. Returns the bytes of its complete
/// characters: a character that is cut off at the end does not count. Throws DataError if a byte is zero or not UTF-8.
std::size_t check_characters(const fs::path& file, std::string_view text, std::int64_t begin, std::string_view remedy) {
  for (std::size_t at = 0; at < text.size();) {
    const int length = first_character(text.substr(at));
    if (length == -2) return at;
    if (length == -1 || text[at] == '\0') {
      const char* wide = wide_encoding(text);
      const bool is_zero = text[at] == '\0';
      const std::string zeros = std::string(is_zero ? "" : ", but has zero bytes") + ", as numbers or ";
      throw DataError(file.string() + (is_zero ? " has a zero byte at byte " : " is not UTF-8 at byte ") +
                          std::to_string(begin + static_cast<std::int64_t>(at)) +
                          (wide == nullptr ? "" : zeros + wide + " have") +
                          ": if it is text, convert it, e.g. with `iconv -f " + (wide == nullptr ? "LATIN1" : wide) +
                          " -t UTF-8`" + std::string(remedy),
                      true);
    }
    at += static_cast<std::size_t>(length);
  }
  return text.size();
}

/// Throws DataError unless `head`, the beginning of a file, is UTF-8 text. `remedy` ends the message.
void check_text(const fs::path& file, std::string_view head, std::string_view remedy) {
  if (const auto kind = kind_of_file(head); kind && !kind->is_text) {
    throw DataError(file.string() + " is not UTF-8 text but " + kind->name + ": " + kind->remedy + std::string(remedy),
                    true);
  }
  (void)check_characters(file, head, 0, remedy);
}

}  // namespace

std::ifstream open_list(const fs::path& path) {
  std::ifstream list(path);
  if (!list) throw DataError("cannot open " + path.string());
  if (fs::is_regular_file(path)) {  // a pipe can be read only once
    std::string head(static_cast<std::size_t>(kHeadBytes), '\0');
    list.read(head.data(), kHeadBytes);
    head.resize(static_cast<std::size_t>(list.gcount()));
    const auto kind = kind_of_file(head);
    if ((kind && !kind->is_text) || head.find('\0') != std::string::npos) check_text(path, head, {});
    list.clear();
    list.seekg(0);
  }
  return list;
}

std::vector<TextPiece> cut_texts(const std::vector<fs::path>& files, const Vocabulary& vocabulary,
                                 std::int64_t piece_bytes, bool any_bytes) {
  std::vector<TextPiece> pieces;
  for (std::size_t f = 0; f < files.size(); ++f) {
    if (!fs::is_regular_file(files[f])) throw DataError("there is no file " + files[f].string(), true);
    const File file(files[f], File::Mode::kRead);
    const auto size = static_cast<std::int64_t>(file.size());
    const std::string head = text_at(file, 0, std::min(kHeadBytes, size));
    const bool is_packed = head.starts_with("\x1F\x8B");
    if (is_packed) {
      GzipFile packed(files[f]);
      if (!any_bytes) check_text(files[f], next_text(packed, kHeadBytes), kForce);
      pieces.push_back({.file = f, .end = size, .is_packed = true});
      continue;
    }
    if (!any_bytes) check_text(files[f], head, kForce);
    for (std::int64_t begin = 0; begin < size;) {
      const std::int64_t end =
          begin + piece_bytes < size ? cut_after(file, vocabulary, begin + piece_bytes, size) : size;
      pieces.push_back({.file = f, .begin = begin, .end = end});
      begin = end;
    }
  }
  return pieces;
}

void read_text(const fs::path& path, const TextPiece& piece, bool any_bytes,
               const std::function<std::size_t(std::string_view)>& complete,
               const std::function<void(std::string_view)>& use) {
  std::string rest;
  std::string cut_off;  // bytes of a character whose rest is in the next part
  std::int64_t cut_off_at = piece.begin;
  const auto check = [&](std::string_view text) {
    cut_off += text;
    const std::size_t checked = check_characters(path, cut_off, cut_off_at, kForce);
    cut_off.erase(0, checked);
    cut_off_at += static_cast<std::int64_t>(checked);
  };
  const auto take = [&](std::string_view text) {
    if (!any_bytes) check(text);
    rest += text;
    const std::size_t end = complete(rest);
    use(std::string_view(rest).substr(0, end));
    rest.erase(0, end);
  };
  if (piece.is_packed) {
    GzipFile file(path);
    for (std::string text = next_text(file, kReadBytes); !text.empty(); text = next_text(file, kReadBytes)) take(text);
  } else {
    const File file(path, File::Mode::kRead);
    for (std::int64_t at = piece.begin; at < piece.end; at += kReadBytes) {
      take(text_at(file, at, std::min(kReadBytes, piece.end - at)));
    }
  }
  if (!cut_off.empty()) throw DataError(path.string() + " ends within a character of UTF-8" + kForce, true);
  use(rest);
}

}  // namespace mn::data

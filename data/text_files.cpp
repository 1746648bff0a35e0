#include "data/text_files.hpp"

#include <algorithm>
#include <string>

#include <mn/core/error.hpp>
#include <mn/core/file_kind.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kForce = "; --encoding any takes any bytes";
constexpr std::int64_t kReadBytes = 4 << 20;

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

PieceReader::PieceReader(const fs::path& file, const TextPiece& piece)
    : file_(file, File::Mode::kRead),
      packed_(piece.is_packed ? open_packed(file) : nullptr),
      at_(piece.begin),
      end_(piece.end) {}

std::string PieceReader::next() {
  if (packed_) {
    std::string text(static_cast<std::size_t>(unpacked_bytes_), '\0');
    unpacked_bytes_ = std::min(2 * unpacked_bytes_, kReadBytes);
    text.resize(packed_->read(std::as_writable_bytes(std::span(text))));
    return text;
  }
  std::string text = text_at(file_, at_, std::min(kReadBytes, end_ - at_));
  at_ += static_cast<std::int64_t>(text.size());
  return text;
}

TextPiece whole_file(const fs::path& path, std::size_t number) {
  const auto size = static_cast<std::int64_t>(File(path, File::Mode::kRead).size());
  return {.file = number, .end = size, .is_packed = is_packed(path)};
}

std::string head_of(const fs::path& path, TextPiece whole) {
  whole.end = std::min(whole.end, kHeadBytes);
  return PieceReader(path, whole).next().substr(0, static_cast<std::size_t>(kHeadBytes));
}

void cut_text(const fs::path& path, std::size_t number, const Vocabulary& vocabulary, std::int64_t piece_bytes,
              bool any_bytes, std::vector<TextPiece>& pieces) {
  const TextPiece whole = whole_file(path, number);
  if (!any_bytes) check_text(path, head_of(path, whole), kForce);
  const File file(path, File::Mode::kRead);
  for (std::int64_t begin = 0; begin < whole.end;) {
    const bool is_last = whole.is_packed || begin + piece_bytes >= whole.end;
    const std::int64_t end = is_last ? whole.end : cut_after(file, vocabulary, begin + piece_bytes, whole.end);
    pieces.push_back({.file = number, .begin = begin, .end = end, .is_packed = whole.is_packed});
    begin = end;
  }
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
  PieceReader reader(path, piece);
  for (std::string text = reader.next(); !text.empty(); text = reader.next()) {
    if (!any_bytes) check(text);
    rest += text;
    const std::size_t end = complete(rest);
    use(std::string_view(rest).substr(0, end));
    rest.erase(0, end);
  }
  if (!cut_off.empty()) throw DataError(path.string() + " ends within a character of UTF-8" + kForce, true);
  use(rest);
}

}  // namespace mn::data

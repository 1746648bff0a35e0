#include "data/documents.hpp"

#include <algorithm>

#include <mn/core/error.hpp>
#include <mn/core/file_kind.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMaxLineBytes = std::size_t{256} << 20;

/// The offset after the first line end at offset `at` or later.
std::int64_t line_after(const fs::path& path, std::int64_t at, std::int64_t size) {
  for (; at < size; at += kHeadBytes) {
    const std::string text = PieceReader(path, {.begin = at, .end = std::min(at + kHeadBytes, size)}).next();
    const std::size_t found = text.find('\n');
    if (found != std::string::npos) return at + static_cast<std::int64_t>(found) + 1;
  }
  return size;
}

/// The number of lines before a piece.
std::int64_t lines_before(const fs::path& path, const TextPiece& piece) {
  std::int64_t lines = 0;
  if (piece.begin == 0) return lines;
  PieceReader reader(path, {.begin = 0, .end = piece.begin});
  for (std::string text = reader.next(); !text.empty(); text = reader.next()) {
    lines += std::ranges::count(text, '\n');
  }
  return lines;
}

}  // namespace

void read_lines(const fs::path& path, const TextPiece& piece,
                const std::function<void(std::string_view, std::int64_t)>& use) {
  std::string rest;
  std::int64_t number = 0;
  const auto take = [&](std::string_view line) {
    ++number;
    if (number == 1 && piece.begin == 0 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (!trimmed(line).empty()) use(trimmed(line), number);
  };
  PieceReader reader(path, piece);
  for (std::string text = reader.next(); !text.empty(); text = reader.next()) {
    rest += text;
    std::size_t begin = 0;
    for (std::size_t end; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1) {
      take(std::string_view(rest).substr(begin, end - begin));
    }
    rest.erase(0, begin);
    if (rest.size() > kMaxLineBytes) {
      throw DataError(path.string() + " has a line of more than 256 MiB: JSON lines have one document each", true);
    }
  }
  if (!rest.empty()) take(rest);
}

void cut_lines(const fs::path& path, std::size_t number, std::int64_t piece_bytes, std::vector<TextPiece>& pieces) {
  const TextPiece whole = whole_file(path, number);
  const std::string head = head_of(path, whole);
  if (const auto kind = kind_of_file(head); kind && !kind->is_text) {
    throw DataError(path.string() + " does not hold JSON lines but " + kind->name + ": " + kind->remedy, true);
  }
  for (std::int64_t begin = 0; begin < whole.end;) {
    const bool is_last = whole.is_packed || begin + piece_bytes >= whole.end;
    const std::int64_t end = is_last ? whole.end : line_after(path, begin + piece_bytes, whole.end);
    pieces.push_back({.file = number, .begin = begin, .end = end, .is_packed = whole.is_packed});
    begin = end;
  }
}

Document document_of(std::string_view line, const std::string& field, const ChatTemplate* chat) {
  const json object = parse_json(line, "the line's JSON");
  if (!object.is_object()) throw DataError("the line is not a JSON object, such as {\"text\": \"…\"}");
  const auto found = object.find(field);
  if (found == object.end()) {
    std::string names;
    for (const auto& item : object.items()) names += (names.empty() ? "" : ", ") + one_line(item.key());
    throw DataError("there is no field \"" + field + "\" but: " + names.substr(0, 200) + " (--field NAME)");
  }
  if (chat != nullptr) return chat_document(*found, *chat);
  if (!found->is_string()) throw DataError("field \"" + field + "\" is no text; --chat reads lists of messages");
  return {{.text = found->get<std::string>()}};
}

void read_json_lines(const fs::path& path, const TextPiece& piece, const std::string& field, const ChatTemplate* chat,
                     const std::function<void(const Document&)>& use) {
  const auto take = [&](std::string_view line, std::int64_t number) {
    try {
      use(document_of(line, field, chat));
    } catch (const DataError& error) {
      throw DataError(path.string() + ":" + std::to_string(lines_before(path, piece) + number) + ": " + error.what(),
                      true);
    }
  };
  read_lines(path, piece, take);
}

}  // namespace mn::data

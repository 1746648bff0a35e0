#include "data/csv.hpp"

#include <algorithm>

#include <mn/core/error.hpp>

#include "data/text_files.hpp"

namespace mn::data {
namespace {

constexpr int kEnd = std::ifstream::traits_type::eof();

char separator_of(std::string_view head) {
  std::int64_t commas = 0, semicolons = 0, tabs = 0;
  bool is_quoted = false;
  for (const char c : head.substr(0, head.find_first_of("\r\n"))) {
    is_quoted ^= c == '"';
    if (is_quoted) continue;
    commas += c == ',' ? 1 : 0;
    semicolons += c == ';' ? 1 : 0;
    tabs += c == '\t' ? 1 : 0;
  }
  if (semicolons > commas) return tabs > semicolons ? '\t' : ';';
  return tabs > commas ? '\t' : ',';
}

}  // namespace

CsvReader::CsvReader(const std::filesystem::path& path) : path_(path), file_(path) {
  if (!file_) throw DataError("cannot open " + path.string());
  std::string head(static_cast<std::size_t>(kHeadBytes), '\0');
  file_.read(head.data(), kHeadBytes);
  head.resize(static_cast<std::size_t>(file_.gcount()));
  check_names(path, head);
  separator_ = separator_of(head);
  file_.clear();
  file_.seekg(head.starts_with("\xef\xbb\xbf") ? 3 : 0);  // the byte order mark of some editors
}

std::string CsvReader::where() const { return path_.string() + ":" + std::to_string(line_); }

void CsvReader::fail(const std::string& what) const { throw DataError(where() + ": " + what); }

void CsvReader::read_quoted(std::string& cell) {
  for (;;) {
    const int c = file_.get();
    if (c == kEnd) fail("a quote is not closed");
    if (c == '\n') ++next_line_;
    if (c == '"' && file_.peek() != '"') return;
    if (c == '"') file_.get();
    cell += static_cast<char>(c);
  }
}

bool CsvReader::next(std::vector<std::string>& cells) {
  cells.assign(1, "");
  line_ = next_line_;
  bool has_quote = false;  // in this cell
  for (;;) {
    int c = file_.get();
    if (c == '\r' && (file_.peek() == '\n' || file_.peek() == kEnd)) c = file_.get();
    if (c == '\n') ++next_line_;
    if (c == '\n' || c == kEnd) {
      if (cells.size() > 1 || !cells[0].empty() || has_quote) return true;
      if (c == kEnd) return false;
      line_ = next_line_;  // the line was empty
    } else if (c == separator_) {
      cells.emplace_back();
      has_quote = false;
    } else if (c == '"' && cells.back().empty() && !has_quote) {
      has_quote = true;
      read_quoted(cells.back());
    } else if (has_quote) {
      fail("text follows the closing quote of \"" + cells.back() + "\"");
    } else {
      cells.back() += static_cast<char>(c);
    }
  }
}

}  // namespace mn::data

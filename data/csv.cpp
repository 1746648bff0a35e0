#include "data/csv.hpp"

#include <algorithm>

#include <mn/core/error.hpp>

#include "data/text_files.hpp"

namespace mn::data {
namespace {

constexpr int kEnd = std::ifstream::traits_type::eof();

char separator_of(std::string_view line) {
  constexpr std::string_view kSeparators = ",;\t";
  std::size_t counts[kSeparators.size()] = {};
  bool is_quoted = false;
  for (const char c : line.substr(0, line.find('\r'))) {
    is_quoted ^= c == '"';
    const std::size_t at = kSeparators.find(c);
    if (!is_quoted && at != std::string_view::npos) ++counts[at];
  }
  return kSeparators[static_cast<std::size_t>(std::ranges::max_element(counts) - counts)];
}

}  // namespace

CsvReader::CsvReader(const std::filesystem::path& path) : path_(path), file_(open_list(path)) {
  std::string line;
  std::getline(file_, line);
  separator_ = separator_of(line);
  file_.clear();
  file_.seekg(line.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
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

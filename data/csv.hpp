/// Reads CSV files as Python's csv module does by default. A cell in quotes may hold separators, ends of lines, and ""
/// for a quote. Source: RFC 4180.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace mn::data {

class CsvReader {
 public:
  /// Opens the file. The separator is the comma, semicolon or tab that is most frequent in the first line outside
  /// quotes. Throws DataError if the file can't be opened, or is not text.
  explicit CsvReader(const std::filesystem::path& path);

  /// Reads the cells of the next row that is not empty; false at the end. If a quote is not closed, or text follows a
  /// closing quote, throws a DataError that names the line.
  bool next(std::vector<std::string>& cells);
  /// "FILE:LINE" of the beginning of the present row.
  [[nodiscard]] std::string where() const;
  /// The first line of the present row, counted from 1.
  [[nodiscard]] std::int64_t line() const noexcept { return line_; }

 private:
  [[noreturn]] void fail(const std::string& what) const;
  /// Appends the rest of a cell in quotes, up to the closing quote.
  void read_quoted(std::string& cell);

  std::filesystem::path path_;
  std::ifstream file_;
  char separator_ = ',';
  std::int64_t line_ = 0;
  std::int64_t next_line_ = 1;
};

}  // namespace mn::data

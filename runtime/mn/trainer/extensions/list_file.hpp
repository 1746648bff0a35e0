/// The file OUT/log, a JSON list that grows by one object, called a row, at a time. Settled rows are rows in the file
/// that never change again.
///
///   "[" settled rows │ last rows "\n]\n"
///
/// Rank 0 holds the list. A write replaces only the text after the settled rows, so the cost of a write does not depend
/// on the length of the file.
/// (1) A reader finds a whole list at any time, even after the process was killed or a write failed.
/// (2) If a write fails, the next write also writes the rows of the failed write.
/// (3) The size of state() does not depend on the length of the list. Of the settled rows, which are in the file,
///     state() has only the length and the checksum. Of the last row and of rows that could not be written, it has the
///     text.
/// (4) If the file is missing, is unreadable, or begins with different rows, as the file of a different run does,
///     load() logs a warning, starts an empty list, and renames an existing file to PATH.lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn::extensions {

class ListFile {
 public:
  /// Begins with an empty list. The first write replaces the file at `path`.
  explicit ListFile(std::filesystem::path path);

  void add(const nlohmann::json& row);
  /// Replaces the last row. The row must have been added since load().
  void change_last(const nlohmann::json& row);
  void remove_last();
  /// Writes the rows to the file. Throws DataError if the write fails.
  void write();

  /// Returns the state of the list for a checkpoint. The state leaves out the last `left_out` rows.
  [[nodiscard]] nlohmann::json state(std::size_t left_out = 0) const;
  /// Continues the list of `state`, a result of state(), with the settled rows of the file at `path` or, if it lacks
  /// them, of the file `other`. The next write removes later rows from the file. Returns the last rows, at most `most`.
  std::vector<nlohmann::json> load(const nlohmann::json& state, const std::filesystem::path& other, std::size_t most);
  /// Splits a file's text into its rows, unparsed, because JSON objects would take many times the memory.
  [[nodiscard]] static std::vector<std::string_view> rows_of(std::string_view text);

 private:
  [[nodiscard]] std::string end() const;
  [[nodiscard]] std::string settled_text();
  void begin_anew(const std::string& why);
  void settle();

  std::filesystem::path path_;
  std::filesystem::path source_;  // the file with the settled rows
  std::uint64_t settled_bytes_ = 0;
  std::uint32_t settled_crc_ = 0;
  std::vector<std::string> rows_;  // all rows after the settled rows
  std::string written_end_;        // text of the file after the settled rows; empty: not written yet
};

}  // namespace mn::extensions

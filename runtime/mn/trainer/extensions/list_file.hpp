/// A JSON list in a file that grows by one object, a row, at a time: OUT/log. Settled rows are rows in the file that do
/// not change any more.
///
///   "[" settled rows │ last rows "\n]\n"
///
/// Rank 0 holds the list. A write replaces the text after the settled rows; therefore its cost does not depend on the
/// length of the file.
/// (1) A reader finds a whole list at any time, even after the process was killed or a write failed.
/// (2) The next write contains the rows of a failed write.
/// (3) The size of state() does not depend on the length of the list: state() has the length and the checksum of the
///     settled rows, which are in the file, and the text of the last row and of rows that could not be written.
/// (4) If load() finds that the file is missing, unreadable, or begins with other rows, as the file of a different run
///     does, it logs a warning, starts an empty list, and renames an old file to PATH.lost.
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
  /// Replaces the last row, which must have been added since load().
  void change_last(const nlohmann::json& row);
  void remove_last();
  /// Writes the rows to the file. Throws DataError if the write fails.
  void write();

  /// Returns the state for a checkpoint, without the last `left_out` rows.
  [[nodiscard]] nlohmann::json state(std::size_t left_out = 0) const;
  /// Continues the list of `state`, a result of state(). The settled rows are read from the file at `path` or, if it
  /// does not have them, from the file `other`. The next write removes later rows from the file. Returns the last rows
  /// of the list, at most `most`.
  std::vector<nlohmann::json> load(const nlohmann::json& state, const std::filesystem::path& other, std::size_t most);
  /// Splits a file's text into its rows, without parsing: JSON objects would take many times the memory.
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
  std::vector<std::string> rows_;  // all rows behind the settled rows
  std::string written_end_;        // the file's text behind the settled rows; empty: not written yet
};

}  // namespace mn::extensions

/// A JSON list in a file that grows by an object at a time: OUT/log.
///
///   "[" settled rows │ last rows "\n]\n"
///
/// Rank 0 holds one. A write replaces what follows the settled rows, so it costs the same however long the file is.
/// (1) A reader finds a whole list, also where the process was killed or a write failed.
/// (2) Rows that a failed write left out come with the next one.
/// (3) state() does not grow with the list: it has the length and the checksum of the settled rows, which are in the
///     file, and the text of the others: the last row, and those that could not be written.
/// (4) Where the file does not begin with the settled rows, because it was lost or is another run's, or where load()
///     cannot read it, a line says so, and the list begins anew. What is there gets the name PATH.lost.
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
  /// An empty list, which replaces what lies at `path` when it is first written.
  explicit ListFile(std::filesystem::path path);

  void add(const nlohmann::json& row);
  /// In place of the last row, which was added since load().
  void change_last(const nlohmann::json& row);
  void remove_last();
  /// DataError if it fails.
  void write();

  /// Without the last `left_out` rows.
  [[nodiscard]] nlohmann::json state(std::size_t left_out = 0) const;
  /// Continues the list of a state(), which `path` has, or else `other`; the next write leaves out what follows there.
  /// Returns the last rows, `most` at most.
  std::vector<nlohmann::json> load(const nlohmann::json& state, const std::filesystem::path& other, std::size_t most);
  /// The rows in the text of a whole file, not parsed: all of them as JSON take many times the memory.
  [[nodiscard]] static std::vector<std::string_view> rows_of(std::string_view text);

 private:
  [[nodiscard]] std::string end() const;
  [[nodiscard]] std::string settled_text();
  void begin_anew(const std::string& why);
  void settle();

  std::filesystem::path path_;
  std::filesystem::path source_;  // has the settled rows
  std::uint64_t settled_bytes_ = 0;
  std::uint32_t settled_crc_ = 0;
  std::vector<std::string> rows_;  // the others
  std::string written_end_;        // what the file has after the settled rows; empty: it is not this list yet
};

}  // namespace mn::extensions

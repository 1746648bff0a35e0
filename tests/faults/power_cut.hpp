/// The files that a power cut may leave, from a record of what processes did to them (support/failing_calls.hpp).
///
/// A change of a file's content is durable once the file is synced, a change of a folder's entries once that folder is.
/// (1) What is durable at the moment of the cut is there, in the order in which it was done.
/// (2) Of the rest any part may be there: a power cut may lose, keep and reorder it. Writes may be there in part, in
///     pages of 4 KiB, or as zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mn::test {

/// One change. Files and folders are numbers; 0 is the recorded folder itself.
struct Change {
  struct Entry {
    int folder;
    std::string name;
    int file;  ///< -1: removed
  };
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  std::string text;            ///< for messages
  std::vector<Entry> entries;  ///< all at once; empty: a change of content
  int file = -1;               ///< whose content changes
  std::uint64_t offset = 0;
  std::string data;              ///< written at offset
  bool truncates = false;        ///< to `offset` bytes
  std::size_t durable = kNever;  ///< number of changes after which a sync has made it durable
  std::int64_t saved = 0;        ///< the iteration that rank 0 then said it had saved (mn::RunStatus)
};

/// What of a change is there.
enum class Part { kNone, kAll, kZeros, kFirstPage, kOtherPages };

/// Paths below the recorded folder, with contents; folders end with "/", links begin with "->".
using Tree = std::map<std::string, std::string>;

class PowerCuts {
 public:
  /// Reads the records of all processes.
  PowerCuts(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& records);

  [[nodiscard]] const std::vector<Change>& changes() const noexcept { return changes_; }
  /// What is there if of change i there is parts[i].
  [[nodiscard]] Tree tree(const std::vector<Part>& parts) const;

 private:
  struct Call;
  void replay(const Call& call);
  [[nodiscard]] int find(const std::filesystem::path& path) const;
  int make(bool is_folder, const std::string& target = "");
  void set(const std::string& text, const std::vector<std::pair<std::filesystem::path, int>>& entries);
  void change_content(const std::string& text, int file, std::uint64_t offset, std::string data, bool truncates);
  void sync(int file);

  struct File {
    bool is_folder;
    std::string target;
  };
  std::filesystem::path folder_;
  std::vector<File> files_ = {{true, ""}};
  std::map<int, std::map<std::string, int>> entries_;        // of folders, as all changes leave them
  std::map<std::pair<std::size_t, std::string>, int> open_;  // by process and number
  std::vector<Change> changes_;
};

}  // namespace mn::test

/// Copies of a dataset's files on a disk of the node.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <mn/core/file.hpp>
#include <mn/data/dataset.hpp>
#include <mn/data/stage_file.hpp>
#include <mn/data/stored_table.hpp>

namespace mn::data {

/// Copies files that are read here in a thread of its own, which is ended at any time without harm.
///
/// All copies lie in one file, each at the offset that it would have if all were copied; the file begins with a board
/// of their states, which every process of the node maps.
///
/// (1) A copy is in use only when it is whole, reads back with the checksums of what was copied, and its file is still
///     the one of the table.
/// (2) A process claims a file on the board before it copies it: each is copied once a node, on first use.
/// (3) Whoever opens a copy compares it with the table, as with any file, and drop()s what it cannot use.
/// (4) What can't be copied is a warning, and the end of this process's copying. Thread-safe.
class FileStage {
 public:
  /// `parts` processes of the node share `copies`.
  FileStage(const StoredTable& table, std::shared_ptr<const StageFile> copies, const StageOptions& options, int parts);
  ~FileStage();
  FileStage(const FileStage&) = delete;
  FileStage& operator=(const FileStage&) = delete;

  /// Whether there is a copy to use.
  [[nodiscard]] bool has_copy(std::size_t file) const noexcept { return state(file) == State::kReady; }
  /// That copy.
  [[nodiscard]] File copy_of(std::size_t file) const;
  /// The file is read from here: it will be copied, if there is room.
  void want(std::size_t file);
  /// The copy is not used any more; the first time a warning says `why`.
  void drop(std::size_t file, const std::string& why);
  /// Files whose copies are in use: for tests and reports.
  [[nodiscard]] std::size_t copies() const;

 private:
  enum class State : std::uint8_t { kAbsent, kClaimed, kReady, kDropped };
  using SharedState = std::atomic<State>;
  using SharedBytes = std::atomic<std::int64_t>;
  static_assert(SharedState::is_always_lock_free && SharedBytes::is_always_lock_free);

  [[nodiscard]] State state(std::size_t file) const noexcept { return states_[file]; }
  void map_board();
  void work(const std::stop_token& stop);
  /// False if there is no room.
  bool claim(std::size_t file);
  void check_room(std::int64_t bytes) const;
  void copy(std::size_t file, const std::stop_token& stop);
  /// Returns the checksums of the pieces.
  std::vector<std::uint32_t> copy_pieces(std::size_t file, const std::stop_token& stop);
  void keep_rate(std::int64_t bytes, const std::stop_token& stop);
  void verify(std::size_t file, const std::vector<std::uint32_t>& pieces) const;

  const StoredTable& table_;
  std::shared_ptr<const StageFile> copies_;
  StageOptions options_;
  int parts_;
  std::vector<std::int64_t> offsets_;     // [files + 1] in the file of copies
  SharedBytes* claimed_bytes_ = nullptr;  // the board's beginning, …
  SharedState* states_ = nullptr;         // … and by file
  std::atomic<bool> warned_ = false;

  std::mutex mutex_;  // guards the rest
  std::condition_variable_any wake_;
  std::vector<bool> wanted_;
  std::deque<std::size_t> queue_;
  std::jthread thread_;  // last: ended before what it uses
};

}  // namespace mn::data

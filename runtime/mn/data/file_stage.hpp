/// Copies of a dataset's files on a disk of the node.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <mn/core/file.hpp>
#include <mn/data/dataset.hpp>
#include <mn/data/stage_server.hpp>
#include <mn/data/stored_table.hpp>

namespace mn::data {

/// Copies the files that this process reads, in a thread that may end at any time: from a node that has a copy
/// (StagePeers), else from shared storage.
///
/// All copies of a node lie in one file, each at the offset that it would have if all files were copied. The file
/// begins with a board, which every process of the node maps: the states of the copies and the checksums of their
/// pieces.
///
/// (1) A copy is used, here and by other nodes, only after three checks: the copy is whole, its bytes on disk have the
///     checksums of the bytes read from storage, and its file is unchanged.
/// (2) A process claims a file on the board before copying: a node copies each file once, on first use.
/// (3) Readers check a copy against the table, as they check the file, and drop() a copy that fails.
/// (4) A failure to copy is a warning, and ends this process's copying. Thread-safe.
class FileStage {
 public:
  FileStage(const StoredTable& table, std::shared_ptr<const StageNode> node, const StageOptions& options);
  ~FileStage();
  FileStage(const FileStage&) = delete;
  FileStage& operator=(const FileStage&) = delete;

  [[nodiscard]] bool has_copy(std::size_t file) const noexcept { return state(file) == State::kReady; }
  /// The copy of a file; has_copy() must hold.
  [[nodiscard]] File copy_of(std::size_t file) const;
  /// Announces a read of the file, which is copied if there is room.
  void want(std::size_t file);
  /// The copy is not used any more; the first time a warning says `why`.
  void drop(std::size_t file, const std::string& why);
  [[nodiscard]] std::size_t copies() const;
  /// Bytes that this process has copied from shared storage and from nodes.
  [[nodiscard]] std::int64_t bytes_from_storage() const noexcept { return from_storage_; }
  [[nodiscard]] std::int64_t bytes_from_nodes() const noexcept { return from_nodes_; }

 private:
  enum class State : std::uint8_t { kAbsent, kClaimed, kReady, kDropped };
  using SharedState = std::atomic<State>;
  using SharedBytes = std::atomic<std::int64_t>;
  using Checksum = std::uint32_t;
  /// A file to copy. `pause` grows while another node copies the file.
  struct Work {
    std::size_t file;
    std::chrono::milliseconds pause;  // 0: the file is not claimed yet
  };
  static_assert(SharedState::is_always_lock_free && SharedBytes::is_always_lock_free);

  [[nodiscard]] State state(std::size_t file) const noexcept { return states_[file]; }
  /// Bytes of the states on the board, rounded up to whole checksums, which follow.
  [[nodiscard]] std::size_t state_bytes() const {
    return (table_.num_files() * sizeof(SharedState) + sizeof(Checksum) - 1) / sizeof(Checksum) * sizeof(Checksum);
  }
  void map_board();
  [[nodiscard]] Checksum& checksum(std::size_t file, std::int64_t at) const {
    return checksums_[first_pieces_[file] + at / kStagePieceBytes];
  }
  void work(const std::stop_token& stop);
  /// The next file to copy; no value at the end.
  [[nodiscard]] std::optional<Work> next(const std::stop_token& stop);
  /// False if there is no room.
  bool claim(std::size_t file);
  void check_room(std::int64_t bytes) const;
  /// False if another node is copying the file.
  [[nodiscard]] bool copy(std::size_t file, const std::stop_token& stop);
  void copy_from_storage(std::size_t file, const std::stop_token& stop);
  [[nodiscard]] StageAnswer copy_from_node(std::size_t file, std::uint32_t node, const std::stop_token& stop);
  void keep_rate(std::int64_t bytes, const std::stop_token& stop);
  /// Reads the copy back. Throws DataError if a checksum differs.
  void verify(std::size_t file) const;
  bool read_copy(std::uint64_t file, const StageServer::Send& send) const;

  const StoredTable& table_;
  std::shared_ptr<const StageNode> node_;
  StageOptions options_;
  std::vector<std::int64_t> offsets_;       // [files + 1] in the file of copies
  std::vector<std::int64_t> first_pieces_;  // [files + 1] of all pieces
  SharedBytes* claimed_bytes_ = nullptr;    // the board's beginning, …
  SharedState* states_ = nullptr;           // … then by file …
  Checksum* checksums_ = nullptr;           // … and by piece
  std::atomic<bool> warned_ = false;
  std::atomic<std::int64_t> from_storage_ = 0;  // bytes
  std::atomic<std::int64_t> from_nodes_ = 0;    // bytes
  StagePeers peers_;

  std::mutex mutex_;  // guards the rest
  std::condition_variable_any wake_;
  std::vector<bool> wanted_;
  std::deque<Work> queue_;
  std::multimap<Clock::time_point, Work> later_;
  std::optional<StageServer> server_;  // in the process that has the listener
  std::jthread thread_;                // last: ends before the members that it uses
};

}  // namespace mn::data

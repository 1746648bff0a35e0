/// Keeps copies of a dataset's files on a disk of the node.
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

/// Copies the files read by this process. A background thread copies each file, from another node that has a copy
/// (StagePeers), or else from shared storage. The process may end in the middle of a copy. Thread-safe.
///
/// All copies of a node lie in one file, which the node's processes share (StageNode::file). It begins with the board,
/// which every process maps into memory: the states of the copies, and a checksum of each piece (kStagePieceBytes) of a
/// copy.
///
/// (1) A copy is used only after three checks: it is complete, its bytes on disk have the checksums of the bytes read
///     from storage, and the file on storage was not changed meanwhile.
/// (2) A process claims a file on the board before it copies the file, so a node copies each file only once.
/// (3) Readers compare a copy with the dataset's table, as they do with a file on storage, and drop() a copy that
///     differs.
/// (4) If copying fails, this process logs a warning, copies no more files, and reads from shared storage.
class FileStage {
 public:
  FileStage(const StoredTable& table, std::shared_ptr<const StageNode> node, const StageOptions& options);
  ~FileStage();

  [[nodiscard]] bool has_copy(std::size_t file) const noexcept { return state(file) == State::kReady; }
  /// has_copy(file) must be true.
  [[nodiscard]] File copy_of(std::size_t file) const;
  /// Announces that this process reads the file. Returns at once; the background thread makes a copy if there is room.
  void want(std::size_t file);
  /// No process of the node uses the copy of `file` any more. The first call logs a warning with the reason `why`.
  void drop(std::size_t file, const std::string& why);
  [[nodiscard]] std::size_t copies() const;
  /// How many bytes this process has copied from shared storage, and from other nodes.
  [[nodiscard]] std::int64_t bytes_from_storage() const noexcept { return from_storage_; }
  [[nodiscard]] std::int64_t bytes_from_nodes() const noexcept { return from_nodes_; }

 private:
  enum class State : std::uint8_t { kAbsent, kClaimed, kReady, kDropped };
  using SharedState = std::atomic<State>;
  using SharedBytes = std::atomic<std::int64_t>;
  using Checksum = std::uint32_t;
  /// A file that the background thread is to copy.
  struct Work {
    std::size_t file;
    std::chrono::milliseconds pause;  // time to wait while another node copies the file; 0: the file is not claimed yet
  };
  static_assert(SharedState::is_always_lock_free && SharedBytes::is_always_lock_free);

  [[nodiscard]] State state(std::size_t file) const noexcept { return states_[file]; }
  /// Size of all states on the board, rounded up to a multiple of sizeof(Checksum), because the checksums follow.
  [[nodiscard]] std::size_t state_bytes() const {
    return (table_.num_files() * sizeof(SharedState) + sizeof(Checksum) - 1) / sizeof(Checksum) * sizeof(Checksum);
  }
  void map_board();
  [[nodiscard]] Checksum& checksum(std::size_t file, std::int64_t at) const {
    return checksums_[first_pieces_[file] + at / kStagePieceBytes];
  }
  void work(const std::stop_token& stop);
  /// Waits for the next file to copy. Returns no value if the stage is being destroyed.
  [[nodiscard]] std::optional<Work> next(const std::stop_token& stop);
  /// Returns false if another process of the node has claimed the file, or if the node's copies reach their limit.
  bool claim(std::size_t file);
  void check_room(std::int64_t bytes) const;
  /// Copies the file and checks the copy. Returns false if another node is copying the file, or is too busy to send it.
  [[nodiscard]] bool copy(std::size_t file, const std::stop_token& stop);
  void copy_from_storage(std::size_t file, const std::stop_token& stop);
  [[nodiscard]] StageAnswer copy_from_node(std::size_t file, std::uint32_t node, const std::stop_token& stop);
  void keep_rate(std::int64_t bytes, const std::stop_token& stop);
  /// Compares the copy on disk with the checksums on the board. Throws DataError if a checksum differs.
  void verify(std::size_t file) const;
  bool read_copy(std::uint64_t file, const StageServer::Send& send) const;

  const StoredTable& table_;
  std::shared_ptr<const StageNode> node_;
  StageOptions options_;
  std::vector<std::int64_t> offsets_;       // [files + 1] where each copy begins in the node's file
  std::vector<std::int64_t> first_pieces_;  // [files + 1] number of each file's first piece
  SharedBytes* claimed_bytes_ = nullptr;    // first on the board: bytes of all claimed files
  SharedState* states_ = nullptr;           // next on the board: [files] states of the copies
  Checksum* checksums_ = nullptr;           // last on the board: [pieces of all files] checksums
  std::atomic<bool> warned_ = false;
  std::atomic<std::int64_t> from_storage_ = 0;  // bytes
  std::atomic<std::int64_t> from_nodes_ = 0;    // bytes
  StagePeers peers_;

  std::mutex mutex_;  // guards the members up to server_
  std::condition_variable_any wake_;
  std::vector<bool> wanted_;
  std::deque<Work> queue_;
  std::multimap<Clock::time_point, Work> later_;
  std::optional<StageServer> server_;  // set only in the process that has StageNode::listener
  std::jthread thread_;                // last: ends before the members that it uses
};

}  // namespace mn::data

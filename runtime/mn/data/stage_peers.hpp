/// Asks the nodes of a job for copies of files, and gets copies from them.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <mn/core/fd.hpp>
#include <mn/core/net/socket.hpp>

namespace mn::data {

/// A secret of the job's processes: no stranger gets an answer.
using StageKey = std::array<std::byte, 16>;

/// The nodes of a job; equal in all processes but for `self`.
struct StageNodes {
  StageKey key = {};
  std::uint32_t self = 0;                           ///< this process's
  std::vector<std::vector<Endpoint>> servers = {};  ///< by node: addresses of its StageServer; empty: no server
};

/// Size of the pieces in which copies travel, each with a checksum.
inline constexpr std::int64_t kStagePieceBytes = 4 << 20;
/// A node that takes longer for a piece is not asked again.
inline constexpr std::chrono::seconds kStagePieceTime{60};

/// Where a node gets a file that it wants to copy.
struct StageSource {
  enum class Kind : std::uint32_t { kStorage, kWait, kNode };
  Kind kind = Kind::kStorage;  ///< kWait: another node is copying the file
  std::uint32_t node = 0;      ///< kNode: a node with a copy
};

/// The beginning of a connection; each connection has one request.
struct StageRequest {
  enum class Kind : std::uint32_t { kAsk, kAdd, kRemove, kGet };
  StageKey key = {};
  Kind kind = Kind::kAsk;
  std::uint32_t node = 0;
  std::uint64_t file = 0;
};

/// The answer to a request. kYes to kGet: the pieces follow, each a checksum and its bytes.
enum class StageAnswer : std::uint32_t { kYes, kNo, kBusy };

/// A file without a name on a disk of the node, for the processes of one job there.
///
/// (1) The file has no name that another user could foresee, replace or follow, and no other user can open it.
/// (2) The system frees its room when the last process with the file open ends, however that process ends.
class StageFile {
 public:
  /// Makes a file in `folder`, and the folder if it is missing. Throws FileError or DataError.
  [[nodiscard]] static StageFile make(const std::filesystem::path& folder);
  /// Opens the file of another process of this node by its handle(); that process must still hold it. Throws as make().
  [[nodiscard]] static StageFile open(const std::string& handle);

  [[nodiscard]] std::string handle() const;
  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }

 private:
  StageFile(Fd fd, std::filesystem::path folder) : fd_(std::move(fd)), folder_(std::move(folder)) {}

  Fd fd_;
  std::filesystem::path folder_;
};

/// What the processes of a node share to keep copies of a dataset's files.
struct StageNode {
  explicit StageNode(StageFile copies, int processes = 1) : file(std::move(copies)), parts(processes) {}

  StageFile file;         ///< for all copies of the node
  int parts;              ///< processes of the node that share the file
  StageNodes nodes = {};  ///< the job's
  Fd listener = {};       ///< in one process: serves the node's copies to other nodes
};

/// Asks the homes of files (StageDirectory) for nodes with copies, and these nodes for the copies. Thread-safe.
///
/// (1) A received copy has the checksums of the bytes that the first node read from shared storage.
/// (2) A node that can't be reached, or does not answer, is not asked again: files come from shared storage instead.
class StagePeers {
 public:
  explicit StagePeers(StageNodes nodes);

  [[nodiscard]] StageSource ask(std::uint64_t file);
  /// Reports this node's copy to the file's home, if this node has a server to give the copy to other nodes.
  void add(std::uint64_t file) {
    if (!homes_.empty() && !nodes_.servers[nodes_.self].empty()) tell(StageRequest::Kind::kAdd, file, nodes_.self);
  }
  /// `node` has none.
  void remove(std::uint64_t file, std::uint32_t node) { tell(StageRequest::Kind::kRemove, file, node); }
  void give_up(std::uint64_t file) { remove(file, nodes_.self); }

  /// Gets `bytes` of a copy in pieces: take(checksum, piece). Returns kNo if the node has no copy, or a damaged copy.
  [[nodiscard]] StageAnswer get(std::uint64_t file, std::uint32_t node, std::int64_t bytes,
                                const std::function<void(std::uint32_t, std::span<const std::byte>)>& take);

 private:
  [[nodiscard]] std::uint32_t home_of(std::uint64_t file) const { return homes_[file % homes_.size()]; }
  /// A connection on which the answer has arrived, stored in `answer`; empty if no answer came.
  template <class Answer>
  [[nodiscard]] Fd request(std::uint32_t node, StageRequest::Kind kind, std::uint64_t file, std::uint32_t about,
                           Answer& answer);
  [[nodiscard]] Fd connect(std::uint32_t node, const StageRequest& request);
  void tell(StageRequest::Kind kind, std::uint64_t file, std::uint32_t about);

  StageNodes nodes_;
  std::vector<std::uint32_t> homes_;                    // nodes with servers; empty: this node is the only one
  std::vector<std::atomic<std::size_t>> good_address_;  // by node: index of the server address that answered last
  std::vector<std::atomic<bool>> was_reached_;
  std::vector<std::atomic<bool>> is_lost_;
  std::atomic<bool> warned_ = false;
};

}  // namespace mn::data

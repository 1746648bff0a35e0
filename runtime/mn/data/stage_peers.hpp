/// Asks other nodes of the job for their copies of dataset files.
#pragma once

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
#include <mn/core/net/key.hpp>
#include <mn/core/net/socket.hpp>

namespace mn::data {

/// The nodes of a job. `key` and `servers` are equal in all processes.
struct StageNodes {
  Key key = {};            ///< a secret; a StageServer answers only requests with this key
  std::uint32_t self = 0;  ///< number of this process's node
  /// [nodes] addresses of each node's StageServer; empty for a node without a server
  std::vector<std::vector<Endpoint>> servers = {};
};

/// Bytes of a piece. A copy is sent piece by piece, and each piece has a checksum.
inline constexpr std::int64_t kStagePieceBytes = 4 << 20;
/// A node that takes longer to send a piece gets no more requests from this node.
inline constexpr std::chrono::seconds kStagePieceTime{60};

struct StageSource {
  enum class Kind : std::uint32_t { kStorage, kWait, kNode };
  Kind kind = Kind::kStorage;  ///< kWait: another node is copying the file; ask again later
  std::uint32_t node = 0;      ///< a node with a copy, if kind is kNode
};

/// A connection begins with this message, its only request.
struct StageRequest {
  enum class Kind : std::uint32_t { kAsk, kAdd, kRemove, kGet };
  Key key = {};
  Kind kind = Kind::kAsk;
  std::uint32_t node = 0;
  std::uint64_t file = 0;
};

/// After a kYes to a kGet request, the pieces of the copy follow: for each piece its checksum, then its bytes.
enum class StageAnswer : std::uint32_t { kYes, kNo, kBusy };

/// A nameless file on a disk of the node, which the job's processes on the node share.
///
/// (1) The file has no name that another user could foresee, replace or follow, and no other user can open it.
/// (2) When all processes that opened the file have ended, even by a signal, the system frees the disk space.
class StageFile {
 public:
  /// Makes a file in `folder`, and the folder if it is missing. Throws FileError or DataError.
  [[nodiscard]] static StageFile make(const std::filesystem::path& folder);
  /// `handle`: the handle() of a file that its maker, a process of this node, still has open. Throws as make() does.
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

  StageFile file;         ///< the file that holds all copies of the node
  int parts;              ///< number of processes of the node that share the file
  StageNodes nodes = {};  ///< the nodes of the job
  Fd listener = {};       ///< listens for requests of other nodes; set only in the process with the StageServer
};

/// Gets copies of files from other nodes. Each file has a home node, which records the nodes that have a copy
/// (StageDirectory). This class asks the home node for a node with a copy, and gets the copy from there. Thread-safe.
///
/// (1) A received copy has the checksums of the bytes that the first node read from shared storage.
/// (2) A node that can't be reached, or does not answer, is not asked again; files are then read from shared storage.
class StagePeers {
 public:
  explicit StagePeers(StageNodes nodes);

  [[nodiscard]] StageSource ask(std::uint64_t file);
  /// Reports this node's copy to the file's home node. Does nothing without a StageServer, which could send the copy.
  void add(std::uint64_t file) {
    if (!homes_.empty() && !nodes_.servers[nodes_.self].empty()) tell(StageRequest::Kind::kAdd, file, nodes_.self);
  }
  /// Reports to the file's home node that `node` has no copy of the file.
  void remove(std::uint64_t file, std::uint32_t node) { tell(StageRequest::Kind::kRemove, file, node); }
  void give_up(std::uint64_t file) { remove(file, nodes_.self); }

  /// Gets a copy of `bytes` bytes from `node`, and calls take(checksum, piece) for each piece, in order. Returns kYes
  /// after the last piece. Returns kNo if the node has no copy, sends a damaged piece, or can't be reached. Returns
  /// kBusy if the node is sending too many copies now.
  [[nodiscard]] StageAnswer get(std::uint64_t file, std::uint32_t node, std::int64_t bytes,
                                const std::function<void(std::uint32_t, std::span<const std::byte>)>& take);

 private:
  [[nodiscard]] std::uint32_t home_of(std::uint64_t file) const { return homes_[file % homes_.size()]; }
  /// Receives the answer into `answer`. Returns the connection, or an empty Fd if no answer came.
  template <class Answer>
  [[nodiscard]] Fd request(std::uint32_t node, StageRequest::Kind kind, std::uint64_t file, std::uint32_t about,
                           Answer& answer);
  [[nodiscard]] Fd connect(std::uint32_t node, const StageRequest& request);
  void tell(StageRequest::Kind kind, std::uint64_t file, std::uint32_t about);

  StageNodes nodes_;
  std::vector<std::uint32_t> homes_;                    // nodes with servers; empty if only one node has a server
  std::vector<std::atomic<std::size_t>> good_address_;  // [nodes] index of the server address that answered last
  std::vector<std::atomic<bool>> was_reached_;
  std::vector<std::atomic<bool>> is_lost_;
  std::atomic<bool> warned_ = false;
};

}  // namespace mn::data

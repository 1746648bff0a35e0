/// Serves this node's copies to other nodes, and answers which nodes have copies of the files at home here.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <vector>

#include <mn/data/stage_peers.hpp>

namespace mn::data {

/// Which nodes have copies of files. Each file has a home node, which keeps its directory entry: file f has as home the
/// node number f mod n of the n nodes with servers.
///
/// (1) Until a node has a copy, only one node at a time reads the file from shared storage.
/// (2) Nodes with a copy are named in turn.
/// (3) A node that does not report the end of its copying within kMaxCopyTime no longer counts as copying.
class StageDirectory {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes kMaxCopyTime{5};

  /// The source of the file for `node`; kStorage makes `node` the copier.
  [[nodiscard]] StageSource ask(std::uint64_t file, std::uint32_t node, Time now);
  void add(std::uint64_t file, std::uint32_t node);
  /// The node has no usable copy, and is not copying the file.
  void remove(std::uint64_t file, std::uint32_t node);

 private:
  struct Entry {
    std::vector<std::uint32_t> nodes;  // nodes with a copy
    std::size_t turn = 0;              // of nodes, to be named next
    std::uint32_t copier = 0;          // the node that reads the file from shared storage …
    Time until = {};                   // … at most until then
  };
  std::unordered_map<std::uint64_t, Entry> files_;
};

/// (1) A connection without the job's key gets no answer.
/// (2) At most kMaxGiven copies are sent at a time, so that the node's own reading has room. Further requests get kBusy
///     and come again later. Two threads stay free for questions.
class StageServer {
 public:
  static constexpr int kMaxGiven = 4;
  /// Calls send(checksum, piece) for the pieces of this node's copy, in order, until send() returns false. Returns
  /// false, without a call, if there is no copy.
  using Send = std::function<bool(std::uint32_t checksum, std::span<const std::byte> piece)>;
  using ReadCopy = std::function<bool(std::uint64_t file, const Send& send)>;

  /// `listener` and the captures of `read_copy` must outlive the server.
  StageServer(const Fd& listener, const StageKey& key, ReadCopy read_copy);
  /// Ends each transfer after its next 256 KiB, or after kStagePieceTime if the receiver has stopped.
  ~StageServer();
  StageServer(const StageServer&) = delete;
  StageServer& operator=(const StageServer&) = delete;

 private:
  void work(const std::stop_token& stop);
  void answer(const Fd& connection, const std::stop_token& stop);
  void give(std::uint64_t file, const Fd& connection, const std::stop_token& stop);

  const Fd& listener_;
  StageKey key_;
  ReadCopy read_copy_;
  std::atomic<int> given_ = 0;
  std::mutex mutex_;
  StageDirectory directory_;           // under mutex_
  std::vector<std::jthread> threads_;  // last: joined before the members that the threads use
};

}  // namespace mn::data

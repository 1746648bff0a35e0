/// Serves this node's copies of files to other nodes.
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

/// On a file's home node, records the nodes with copies. Of n nodes with servers, number f mod n is the home of file f.
///
/// (1) Until a node has a copy, only one node at a time, the file's copier, reads the file from shared storage.
/// (2) If several nodes have a copy, successive answers name them in turn.
/// (3) If a node has not reported its copy after kMaxCopyTime, it no longer counts as the file's copier.
class StageDirectory {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes kMaxCopyTime{5};

  /// Tells from where `node` is to get the file. If the answer is kStorage, `node` becomes the file's copier.
  [[nodiscard]] StageSource ask(std::uint64_t file, std::uint32_t node, Time now);
  void add(std::uint64_t file, std::uint32_t node);
  /// Records that the node has no usable copy, and is not copying the file.
  void remove(std::uint64_t file, std::uint32_t node);

 private:
  struct Entry {
    std::vector<std::uint32_t> nodes;  // nodes that have a copy of the file
    std::size_t turn = 0;              // counts answers; nodes[turn % size] is named next
    std::uint32_t copier = 0;          // the node that reads the file from shared storage
    Time until = {};                   // when `copier` no longer counts as the copier
  };
  std::unordered_map<std::uint64_t, Entry> files_;
};

/// Answers requests of other nodes, on threads of this object.
/// (1) A connection without the job's key gets no answer.
/// (2) At most kMaxGiven copies are sent at a time, so that they do not slow down the node's own reads. Further kGet
///     requests are answered kBusy. Two more threads answer requests that need no copy.
class StageServer {
 public:
  static constexpr int kMaxGiven = 4;
  /// Sends a piece of a copy to the other node. Returns false if no more pieces are to be sent.
  using Send = std::function<bool(std::uint32_t checksum, std::span<const std::byte> piece)>;
  /// Calls send() for the pieces of this node's copy of `file`, in order, until send() returns false. Returns false,
  /// without calling send(), if the node has no copy.
  using ReadCopy = std::function<bool(std::uint64_t file, const Send& send)>;

  /// `listener` and the captures of `read_copy` must outlive the server.
  StageServer(const Fd& listener, const Key& key, ReadCopy read_copy);
  /// Ends each transfer after its next 256 KiB, or after kStagePieceTime if the receiver takes no data.
  ~StageServer();

 private:
  void work(const std::stop_token& stop);
  void answer(const Fd& connection, const std::stop_token& stop);
  void give(std::uint64_t file, const Fd& connection, const std::stop_token& stop);

  const Fd& listener_;
  Key key_;
  ReadCopy read_copy_;
  std::atomic<int> given_ = 0;
  std::mutex mutex_;
  StageDirectory directory_;           // guarded by mutex_
  std::vector<std::jthread> threads_;  // last: joined before the members that the threads use
};

}  // namespace mn::data

/// Gives this node's copies to other nodes, and tells them who has copies of the files whose home this one is.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include <mn/data/stage_peers.hpp>

namespace mn::data {

/// (1) A connection without the job's key gets no answer.
/// (2) At most kMaxGiven copies are given at a time, so that a node's own reading has room; others are answered kBusy
///     and ask again. The other threads answer questions.
class StageServer {
 public:
  static constexpr int kMaxGiven = 4;
  /// Calls send(checksum, piece) for the pieces of this node's copy, in order, until that returns false. False, without
  /// a call, if there is no copy.
  using Send = std::function<bool(std::uint32_t checksum, std::span<const std::byte> piece)>;
  using ReadCopy = std::function<bool(std::uint64_t file, const Send& send)>;

  /// `listener` and what `read_copy` uses must outlive it.
  StageServer(const Fd& listener, const StageKey& key, ReadCopy read_copy);
  /// Ends what is being given after its next 256 KiB, or the time that a stopped node may take for them.
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
  std::vector<std::jthread> threads_;  // last: ended before what they use
};

}  // namespace mn::data

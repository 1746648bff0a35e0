/// A rank of an NCCL communicator: what its operations do when their streams come to them.
///
/// An operation occupies its stream until every rank came to it, and moves data through the segment piece by piece.
///
/// Invariants:
/// 1. The operations of a communicator run in the order of their submission, whatever their streams. In a graph that is
///    the order of each launch. With NCCL_LAUNCH_ORDER_IMPLICIT=1, from NCCL 2.26 on, a graph keeps the order of all
///    communicators of a GPU.
/// 2. An operation that fails does not end: its stream is held until abort(), and only error() tells why. So GPUs do.
/// 3. Destruction waits for every operation, and for every graph that captured one.
/// 4. The first collective of a kind connects, and so waits in the host for all ranks, unless NCCL_RUNTIME_CONNECT is
///    0; the first message between two ranks waits for the other one in any case.
/// 5. Ranks share a GPU only from 2.30.3 on, with NCCL_MULTI_RANK_GPU_ENABLE.
///
/// Source: NCCL User Guide, "Using multiple NCCL communicators concurrently", "Communicator abort",
/// "NCCL_RUNTIME_CONNECT" and "NCCL_LAUNCH_ORDER_IMPLICIT".
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "tests/support/stand_in_gpu/nccl_arithmetic.hpp"
#include "tests/support/stand_in_gpu/nccl_segment.hpp"

namespace mn::stand_in {

/// One side of a send or receive.
struct Message {
  bool is_send = false;
  std::byte* data = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  int peer = 0;
  std::size_t moved = 0;  ///< bytes
};

/// Where a rank goes in a split.
struct Part {
  std::string segment;
  int rank = 0;
  int size = 1;
};

class Comm {
 public:
  Comm(const std::string& segment, int rank, int size, int device, bool is_blocking);
  ~Comm() = default;  // after finish()
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] bool is_blocking() const noexcept { return is_blocking_; }

  /// Waits for the other ranks, and makes sure that each has a GPU of its own. A failure is error()'s too.
  ncclResult_t join();
  /// Whether operations are under way: a split must wait for them.
  [[nodiscard]] bool is_busy() const noexcept { return done_ != submitted_; }
  /// Waits for all ranks. No value: the rank is in no part, or the communicator failed.
  [[nodiscard]] std::optional<Part> split(int color, int key);

  /// Runs call(): at once and with its result, or, for a communicator that does not block, soon, with ncclInProgress.
  ncclResult_t start(std::function<ncclResult_t()> call);
  /// Connects for a collective (4). False once the communicator failed or is aborted.
  bool connect(const Call& call);
  /// Connects for messages (4).
  bool connect(const std::vector<Message>& messages);
  /// Puts an operation into the stream, which calls body(its number).
  ncclResult_t enqueue(cudaStream_t stream, std::function<void(std::uint64_t number)> body);

  // Bodies of operations.
  void collective(const Call& call, const std::byte* send, std::byte* recv);
  void exchange(std::uint64_t number, std::vector<Message> messages);

  [[nodiscard]] ncclResult_t error() const noexcept { return error_; }
  /// Text of the last failure.
  [[nodiscard]] std::string words() const;
  void abort() noexcept { is_aborted_ = true; }
  /// Waits until the communicator may go.
  void finish();

 private:
  [[nodiscard]] ncclResult_t failure() const;
  using Ready = std::function<bool()>;
  // Each is false once the communicator failed or is aborted, or its GPU is lost.
  [[nodiscard]] bool is_well() const;
  [[nodiscard]] const void* order() const;
  bool wait(const Ready& ready);
  bool wait_for_ranks(const Ready& ready);
  bool wait_in_host(const Ready& ready);
  bool meet();
  bool agree(const Call& call);
  bool share(const std::byte* from, std::size_t bytes);

  void take(const Call& call, int turn, std::byte* to, std::size_t part, std::size_t count);
  /// Moves what can be moved now; true when nothing is left.
  bool move(std::vector<Message>& messages);
  void move(Message& message, Mail& mail);
  void look_for_losses();
  void say_who_is_late();
  void fail(ncclResult_t code, const std::string& words);
  Slot& mine() { return segment_.slot(rank_); }
  [[nodiscard]] std::vector<int> members(int color);
  /// Which ranks share a GPU; empty if none do.
  [[nodiscard]] std::string shared_gpu();

  Segment segment_;
  int rank_;
  int size_;
  int device_;
  bool is_blocking_;
  std::atomic<bool> is_aborted_ = false;
  std::atomic<ncclResult_t> error_ = ncclSuccess;
  mutable std::mutex words_mutex_;
  std::string words_;
  std::atomic<std::uint64_t> submitted_ = 0;
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<int> connecting_ = 0;                           // calls that wait in the host
  std::uint64_t collectives_ = 0;                             // begun; by the operation that runs
  std::shared_ptr<int> in_graphs_ = std::make_shared<int>();  // owned also by each captured operation
};

/// STAND_IN_NCCL_VERSION, else that of the header.
[[nodiscard]] int shown_version();
/// The communicator's call fails; for ncclGetLastError.
ncclResult_t refuse(ncclResult_t code, const std::string& words);
[[nodiscard]] const std::string& last_words();
/// must_fail(), which says so.
[[nodiscard]] bool nccl_fails(const std::string& call);

}  // namespace mn::stand_in

/// NCCL's name for it.
struct ncclComm final : mn::stand_in::Comm {
  using Comm::Comm;
};

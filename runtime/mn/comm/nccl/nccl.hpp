/// Owner and checks for NCCL communicators; for the files that builds with NCCL alone compile.
///
/// The backends in nccl_backends.cpp call it, on all ranks of the communicator at once.
///
/// Invariants:
/// 1. Every result of NCCL is checked. The first error aborts the communicator: every later call throws CommError, and
///    destruction waits for no other rank.
/// 2. While an exception unwinds, destruction aborts, because the other ranks may never come to ncclCommDestroy.
/// 3. ncclCommAbort runs on a thread of its own, which is left behind if that takes long: the call returns only when no
///    CUDA graph holds an operation of the communicator. The operations themselves end at its beginning.
/// 4. An error is thrown before the abort begins: other ranks see an abort as an error too, and theirs says less.
/// 5. A group of calls is closed even if one of them fails; a group left open would swallow the next calls.
/// 6. Two ranks that share a GPU are found before NCCL is asked, and the error is the same on all ranks. From 2.30.3 on
///    NCCL takes them (NCCL_MULTI_RANK_GPU_ENABLE=1, unless the program sets it).
/// 7. Collectives never wait in the host for other ranks: all connections are made in the constructor
///    (NCCL_RUNTIME_CONNECT=0, unless the program sets it). Those of messages are made by the first call between two
///    ranks, which does wait for the other rank. What waits runs on a thread of its own, so that MPI goes on meanwhile
///    and limits hold.
/// 8. Work that nobody waits for is watched by a thread, from watch() on: who waits for the device by other means, as a
///    program that reads a loss does, would wait without end after an error. The thread aborts; the next call throws.
/// 9. An abort frees memory, and so waits for the whole device, for a collective of another communicator too. Where it
///    does not return in time, and no graph is the reason (3), this process's other communicators are aborted as well.
/// 10. The parts of a split share nothing with the whole but NCCL's way to meet. Resources that they shared would put
///    the work of all into one order, which must then be the same on all ranks, and the abort of one would end the
///    others' work without a word.
///
/// Cost: each call enqueues one NCCL operation and returns; wait() polls the stream and NCCL's asynchronous errors, at
/// first without a pause, then every 50 microseconds. The constructor: one MPI_Bcast of NCCL's id and
/// find_device_conflict(). The destructor: up to 0.5 s, the time between two looks of NCCL's own threads, after the end
/// of the work that is watched (8).
/// Source: NCCL User Guide, "Error handling and communicator abort" and "Using NCCL with CUDA Graphs".
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <mpi.h>
#include <nccl.h>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

/// Throws CommError with NCCL's own text, the operation, its size and line unless `code` is ncclSuccess.
void nccl_check(ncclResult_t code, std::string_view operation, std::size_t bytes = 0,
                std::source_location where = std::source_location::current());

/// An NCCL communicator over the ranks of an MPI communicator. Calls enqueue on a stream; counts may exceed INT_MAX.
class Nccl {
 public:
  /// Collective over `comm`, which is borrowed for the call; every rank brings a GPU. Throws UsageError on all ranks if
  /// two of them share one (6). NCCL_* variables are NCCL's own; MN_NCCL_TIMEOUT limits this and wait(), in
  /// seconds.
  Nccl(MPI_Comm comm, Device device);
  /// A part, which NCCL has made of `whole`.
  Nccl(const Nccl& whole, ncclComm_t part);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  /// Collective: whether the ranks' NCCL has split().
  [[nodiscard]] static bool can_split(MPI_Comm comm);
  /// Collective: a communicator of the ranks that give the same color, ordered by key; null where it is negative. All
  /// enqueued work is on `stream`, which is waited for: NCCL can't split meanwhile (10).
  [[nodiscard]] std::shared_ptr<Nccl> split(int color, int key, const CudaStream& stream);

  // `scale` multiplies each rank's elements, float32 or float64, before they are summed.
  void allreduce(BufferView buffer, ReduceOp op, double scale, const CudaStream& stream);
  /// `recv` counts on `root` alone, and may be `send`.
  void reduce(ConstBufferView send, BufferView recv, ReduceOp op, double scale, int root, const CudaStream& stream);
  void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op, double scale, const CudaStream& stream);
  void bcast(BufferView buffer, int root, const CudaStream& stream);
  void allgather(ConstBufferView send, BufferView recv, const CudaStream& stream);
  /// sent[r] goes to rank r, received[r] comes from rank r; no message for an empty part.
  void exchange(std::span<const ConstBufferView> sent, std::span<const BufferView> received, const CudaStream& stream);
  void send(ConstBufferView buffer, int dest, const CudaStream& stream);
  void recv(BufferView buffer, int source, const CudaStream& stream);
  /// `recv` must not be `send`.
  void alltoall(ConstBufferView send, BufferView recv, const CudaStream& stream);

  /// Blocks until `stream` is done, asking NCCL for asynchronous errors meanwhile. Throws CommError after
  /// MN_NCCL_TIMEOUT too (default 1800, 0: never), because NCCL does not notice every loss of a rank; and where the
  /// call has a time-out of its own that ends it (call_limits.hpp).
  void wait(const CudaStream& stream);
  /// Nobody may come to wait for what `stream` holds: as wait(), but on the thread (8), so that the call returns at
  /// once. The calling thread's device is the stream's.
  void watch(const CudaStream& stream);

 private:
  using Clock = std::chrono::steady_clock;
  /// (4) For this rank to say why, before others see the abort.
  static constexpr auto kReportTime = std::chrono::milliseconds(500);

  template <class Call>
  void enqueue(std::string_view operation, std::size_t bytes, const Call& call,
               std::source_location where = std::source_location::current());
  template <class Call>
  void enqueue_reduction(std::string_view operation, ConstBufferView buffer, ReduceOp op, double scale,
                         const Call& call, std::source_location where = std::source_location::current());
  /// The reduction of one rank alone. NCCL's own leaves out the last elements of some counts (2.28, in place: 5001
  /// float32 on two blocks).
  void scale_alone(std::string_view operation, ConstBufferView send, BufferView recv, double scale,
                   const CudaStream& stream);
  /// call() on a thread of its own (7). Throws what ends the wait, after call() has returned; the beginning of a
  /// communicator, which can't be aborted, is left behind, and owns what it uses.
  [[nodiscard]] ncclResult_t aside(std::function<ncclResult_t()> call);
  /// Whether a message to or from `peer` waits for its connection; it is made by the call that asks.
  [[nodiscard]] bool must_connect(std::vector<bool>& connected, std::size_t peer);
  /// Sends and receives that go on at once.
  void group(std::string_view operation, std::size_t bytes, std::span<const ConstBufferView> sent,
             std::span<const BufferView> received, const CudaStream& stream);
  [[noreturn]] void fail(ncclResult_t code, std::source_location where);
  void adopt(ncclComm_t made);
  void name_rank();
  void check_usable();
  void check_progress(Clock::time_point begin);
  void check_patience(Clock::time_point begin) const;
  void abort(std::chrono::milliseconds delay) noexcept;
  void abort_others() noexcept;
  void run_watch(const std::stop_token& stop);
  [[nodiscard]] bool is_watched_work_done();

  std::mutex mutex_;                    // guards what follows, but for the numbers; held by all calls of NCCL
  ncclComm_t comm_ = nullptr;           // null once it is to be aborted
  std::string failure_;                 // what the watch has found
  std::future<ncclResult_t> aborting_;  // valid once comm_ is null
  int rank_ = 0;
  int size_ = 1;
  std::chrono::seconds patience_;
  std::vector<bool> sends_to_;       // ranks to which messages have gone
  std::vector<bool> receives_from_;  // ranks from which they have come
  std::string who_;                  // "rank 1 of 4 (host n1, cuda:1)"
  std::string operation_;            // the last one enqueued: what an asynchronous error most likely belongs to
  std::size_t bytes_ = 0;

  int device_;
  std::condition_variable_any watched_;  // there is work, or the end
  CudaEvent watched_work_;               // null: none has been watched yet
  bool was_captured_ = false;            // by a CUDA graph
  bool is_watching_ = false;             // the event is recorded, and not known to be done
  Clock::time_point watching_since_;
  std::jthread watch_;  // last: it uses the others
};

}  // namespace mn

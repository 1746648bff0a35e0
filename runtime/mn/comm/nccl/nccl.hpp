/// Owns NCCL communicators and checks NCCL's results. Only for builds with NCCL.
///
/// Invariants:
/// 1. Every result of NCCL is checked. The first error aborts the communicator: every later call throws CommError, and
///    destruction waits for no other rank.
/// 2. While an exception unwinds the stack, destruction aborts the communicator, as other ranks may never call
///    ncclCommDestroy.
/// 3. ncclCommAbort runs on a separate thread, because it returns only when no CUDA graph holds an operation of the
///    communicator. If it takes too long, the destructor stops waiting for the thread. By then the communicator's
///    operations have ended, because an abort ends them first.
/// 4. An error is thrown before the abort begins, because the failing rank should report first. Other ranks notice only
///    the abort, so their errors say less.
/// 5. A group of calls is closed even after an error, because NCCL would add later calls to an open group.
/// 6. If two ranks share a GPU, all ranks throw the same error before NCCL is called. NCCL 2.30.3 and newer allow
///    sharing (NCCL_MULTI_RANK_GPU_ENABLE=1, unless the program sets the variable).
/// 7. A collective call never makes the host wait for other ranks: the constructor makes all connections of collectives
///    (NCCL_RUNTIME_CONNECT=0, unless the program sets the variable). The first message between two ranks makes their
///    connection on a separate thread, which waits for the other rank. Meanwhile MPI progresses, and time-outs apply.
/// 8. From watch() on, a thread watches the enqueued work for errors, because a program that waits for the device
///    without wait() would otherwise wait forever. On an error the thread aborts the communicator, and the next call
///    throws.
/// 9. An abort frees memory, so it waits for the whole device, even for a collective of a different communicator. If
///    the abort does not return in time, and no CUDA graph is the reason (invariant 3), the other communicators are
///    aborted, too.
/// 10. A communicator made by split() shares only NCCL's bootstrap with the original. With shared resources, NCCL would
///     put the work of both into one order, and the abort of one would silently end the work of the other.
/// 11. Several communicators of a process may work at once: gradients, batch normalization, calls of the program. From
///     NCCL 2.26 on, NCCL orders their work on the GPU by the order of the host's calls (NCCL_LAUNCH_ORDER_IMPLICIT=1,
///     unless the program sets the variable). Otherwise two GPUs may begin the work in different orders, and wait for
///     each other forever. All ranks must therefore call the communicators in the same order. In debug mode ranks
///     compare this order (call_check.hpp), and each call blocks, so no two communicators work at once.
///
/// Cost: each call enqueues one NCCL operation and returns. wait() polls the stream and NCCL's asynchronous errors.
/// Constructor: one MPI_Bcast of NCCL's id, and find_device_conflict(). Destructor: up to 0.5 s after the end of
/// watched work (invariant 8), because NCCL's own threads check for the end only now and then. Source: NCCL User Guide,
/// "Error handling and communicator abort", "Using NCCL with CUDA Graphs", "Using multiple NCCL communicators
/// concurrently".
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
#include <mn/comm/device/nccl_limits.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

/// Throws CommError with NCCL's own text, the operation, its size and the source line unless `code` is ncclSuccess.
void nccl_check(ncclResult_t code, std::string_view operation, std::size_t bytes = 0,
                std::source_location where = std::source_location::current());

/// An NCCL communicator over the ranks of an MPI communicator. Calls enqueue work on `stream`. Counts may exceed
/// INT_MAX.
class Nccl {
 public:
  /// Collective over `comm`, which is used only during the call. `device` is this rank's GPU. Throws UsageError on all
  /// ranks if two of them share a GPU (invariant 6). MN_NCCL_TIMEOUT limits the constructor and wait(), in seconds.
  Nccl(MPI_Comm comm, Device device);
  /// Takes over `part`, which NCCL has split from the communicator of `whole`.
  Nccl(const Nccl& whole, ncclComm_t part);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  [[nodiscard]] static bool can_split(MPI_Comm comm);
  /// Collective: makes a communicator of the ranks with equal `color`, ordered by `key`; null for a negative color. All
  /// work of this communicator must be on `stream`. Waits for `stream`, because NCCL cannot split a communicator at
  /// work.
  [[nodiscard]] std::shared_ptr<Nccl> split(int color, int key, const NcclLimits& limits, const CudaStream& stream);

  /// Calls `call` with NCCL's communicator and returns its result. The call runs on a separate thread, because it may
  /// wait for other ranks. Throws CommError if the communicator was aborted, and in the cases of wait().
  [[nodiscard]] ncclResult_t call(std::string_view operation, const std::function<ncclResult_t(ncclComm_t)>& call);

  // `op` may be any operation except kAverage. NCCL is never asked to multiply elements: for ncclAvg and scaled sums
  // NCCL uses neither NVLink SHARP nor registered buffers nor its symmetric kernels.
  void allreduce(BufferView buffer, ReduceOp op, const CudaStream& stream);
  /// Writes only to the `recv` of rank `root`, which may be the same memory as `send`.
  void reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root, const CudaStream& stream);
  void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op, const CudaStream& stream);
  void bcast(BufferView buffer, int root, const CudaStream& stream);
  void allgather(ConstBufferView send, BufferView recv, const CudaStream& stream);
  /// sent[r] goes to rank r, and received[r] comes from rank r. An empty part is not sent.
  void exchange(std::span<const ConstBufferView> sent, std::span<const BufferView> received, const CudaStream& stream);
  void send(ConstBufferView buffer, int dest, const CudaStream& stream);
  void recv(BufferView buffer, int source, const CudaStream& stream);
  /// `recv` must not be `send`.
  void alltoall(ConstBufferView send, BufferView recv, const CudaStream& stream);

  /// Blocks until the work on `stream` is done. Throws CommError after an asynchronous error of NCCL, after
  /// MN_NCCL_TIMEOUT seconds (default 1800, 0: never), or when the time-out of the communicator's call is over
  /// (call_timeouts.hpp).
  void wait(const CudaStream& stream);
  /// Invariant 8: makes the watching thread watch the present work on `stream`, a stream of the calling thread's
  /// device.
  void watch(const CudaStream& stream);

 private:
  using Clock = std::chrono::steady_clock;
  /// Invariant 4: the delay of an abort, so that the failing rank reports first.
  static constexpr auto kReportTime = std::chrono::milliseconds(500);

  template <class Call>
  void enqueue(std::string_view operation, std::size_t bytes, const Call& call,
               std::source_location where = std::source_location::current());
  /// Runs call() on a separate thread (invariant 7), and waits for the thread. After an error or a time-out, aborts the
  /// communicator, and throws once call() has returned. ncclCommInitRank cannot be aborted, so its thread is detached,
  /// and owns the memory that it uses.
  [[nodiscard]] ncclResult_t aside(std::function<ncclResult_t()> call);
  /// True if the next message to or from `peer` must make the connection. Marks `peer` as connected.
  [[nodiscard]] bool must_connect(std::vector<bool>& connected, std::size_t peer);
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

  std::mutex mutex_;                    // guards all members below except numbers, and all calls of NCCL
  ncclComm_t comm_ = nullptr;           // null once its abort begins
  std::string failure_;                 // error that the watching thread has found
  std::future<ncclResult_t> aborting_;  // valid once comm_ is null
  int rank_ = 0;
  int size_ = 1;
  std::chrono::seconds patience_;
  std::vector<bool> sends_to_;
  std::vector<bool> receives_from_;
  std::string who_;        // "rank 1 of 4 (host n1, cuda:1)"
  std::string operation_;  // last enqueued, the likely cause of an asynchronous error
  std::size_t bytes_ = 0;

  int device_;
  std::condition_variable_any watched_;  // there is new work to watch, or the thread must end
  CudaEvent watched_work_;               // null: no work was watched yet
  bool was_captured_ = false;            // a CUDA graph was capturing the watched stream
  bool is_watching_ = false;             // watched_work_ is recorded, and not known to be done
  Clock::time_point watching_since_;
  std::jthread watch_;  // last: the thread uses the other members
};

}  // namespace mn

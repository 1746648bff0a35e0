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
/// 6. Two ranks that share a GPU are found before NCCL is asked, and the error is the same on all ranks.
///
/// Cost: each call enqueues one NCCL operation and returns; wait() polls the stream and NCCL's asynchronous errors, at
/// first without a pause, then every 50 microseconds. The constructor: one MPI_Bcast of NCCL's id and
/// find_device_conflict().
/// Source: NCCL User Guide, "Error handling and communicator abort" and "Using NCCL with CUDA Graphs".
#pragma once

#include <chrono>
#include <cstddef>
#include <future>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

#include <mpi.h>
#include <nccl.h>

#include <mn/comm/cuda.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

/// Throws CommError with NCCL's own text, the operation, its size and line unless `code` is ncclSuccess.
void nccl_check(ncclResult_t code, std::string_view operation, std::size_t bytes = 0,
                std::source_location where = std::source_location::current());

/// An NCCL communicator over the ranks of an MPI communicator. Calls enqueue on a stream; counts may exceed INT_MAX.
class Nccl {
 public:
  /// Collective over `comm`, which is borrowed for the call; every rank brings a GPU. Throws UsageError on all ranks if
  /// two of them share one. NCCL_* variables are NCCL's own; MN_NCCL_TIMEOUT is wait()'s, in seconds.
  Nccl(MPI_Comm comm, Device device);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

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

 private:
  template <class Call>
  void enqueue(std::string_view operation, std::size_t bytes, const Call& call,
               std::source_location where = std::source_location::current());
  template <class Call>
  void enqueue_reduction(std::string_view operation, ConstBufferView buffer, ReduceOp op, double scale,
                         const Call& call, std::source_location where = std::source_location::current());
  /// Sends and receives that go on at once.
  void group(std::string_view operation, std::size_t bytes, std::span<const ConstBufferView> sent,
             std::span<const BufferView> received, const CudaStream& stream);
  [[noreturn]] void fail(ncclResult_t code, std::source_location where);
  void check_progress(std::chrono::steady_clock::time_point begin);
  void abort(std::chrono::milliseconds delay) noexcept;

  ncclComm_t comm_ = nullptr;           // null once it is to be aborted
  std::future<ncclResult_t> aborting_;  // valid from then on
  int rank_ = 0;
  int size_ = 1;
  std::chrono::seconds patience_;
  std::string who_;        // "rank 1 of 4 (host n1, cuda:1)"
  std::string operation_;  // the last one enqueued: what an asynchronous error most likely belongs to
  std::size_t bytes_ = 0;
};

}  // namespace mn

/// Collectives that are enqueued on a GPU's stream, without a wait on the host.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include <mn/core/buffer.hpp>

namespace mn {

/// A point in the work that a DeviceCollectives has enqueued; mark() returns it.
class DeviceMark {
 public:
  virtual ~DeviceMark() = default;
  DeviceMark(const DeviceMark&) = delete;             ///< not copyable
  DeviceMark& operator=(const DeviceMark&) = delete;  ///< not copyable

  /// Blocks until the work before the mark is done. Throws like DeviceCollectives::wait().
  virtual void wait() = 0;
  /// True if wait() would return at once.
  [[nodiscard]] virtual bool is_done() = 0;

 protected:
  DeviceMark() = default;
};

/// The calls of a Communicator for buffers that all lie on its device. Their work is enqueued on the communicator's own
/// stream, and the host goes on at once. after() and join() order this work and the work of a stream of the program.
/// Between after() and join(), the program's stream may be capturing a CUDA graph. Every rank must then capture, and
/// must have made the same calls once before, with the same buffers. The caller must check the arguments. Only one
/// thread at a time may call an object. Each `stream` is a cudaStream_t, passed as void*; null is the legacy default
/// stream.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  DeviceCollectives(const DeviceCollectives&) = delete;             ///< not copyable
  DeviceCollectives& operator=(const DeviceCollectives&) = delete;  ///< not copyable

  /// Work that this object enqueues from now on begins after the present work of `stream`.
  virtual void after(void* stream) = 0;
  /// Work that the program enqueues on `stream` from now on begins after the work that this object has enqueued so far.
  virtual void join(void* stream) = 0;
  /// Blocks until the enqueued work is done, and meanwhile looks for errors. If an error occurs, wait() aborts the
  /// communicator and throws CommError.
  virtual void wait() = 0;
  /// Marks the work enqueued so far. Destroy the mark before the communicator.
  [[nodiscard]] virtual std::unique_ptr<DeviceMark> mark() = 0;

  /// Allocates device memory that this object's calls reduce faster than other memory. The memory is not initialized,
  /// and may outlive this object. The call is collective and blocks. Returns null on all ranks if there is no such
  /// memory.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;

  /// Copies the elements of rank `root` into the buffer of every rank.
  virtual void bcast(BufferView buffer, int root) = 0;
  /// Writes the elements of all ranks' `send` to `recv`, in rank order; `recv` has send.count elements for each rank.
  virtual void allgather(ConstBufferView send, BufferView recv) = 0;
  /// Part i of `send` goes to rank i, and part j of `recv` comes from rank j. If `recv` and `send` are the same buffer,
  /// the device first copies the elements.
  virtual void alltoall(ConstBufferView send, BufferView recv) = 0;
  /// sent[r] goes to rank r, and received[r] comes from rank r. For each of these parts, sender and receiver must pass
  /// the same number of elements. An empty part is not sent. The buffers of `sent` and `received` must not overlap.
  virtual void exchange(std::span<const ConstBufferView> sent, std::span<const BufferView> received) = 0;
  /// Reduces `buffer` in place. The ranks' results may differ by rounding. The minimum and the maximum of a NaN and any
  /// number are NaN.
  virtual void allreduce(BufferView buffer, ReduceOp op) = 0;
  /// Writes the reduction to the `recv` of rank `root`, which may be the same buffer as `send`. On all ranks except the
  /// root `recv` is ignored.
  virtual void reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root) = 0;
  /// Reduces `send` over all ranks, and writes the calling rank's part of the result to `recv`.
  virtual void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) = 0;
  /// Replaces each gradient by `scale` times its sum over ranks.
  virtual void sum_gradients(std::span<const BufferView> gradients, double scale) = 0;

  // Messages. Only sender and receiver enqueue a message. Work enqueued after a message waits until the other rank has
  // reached the message, too. Two ranks that send to each other must use exchange().

  /// Sends the buffer to rank `dest`, which must receive the same number of elements of the same dtype.
  virtual void send(ConstBufferView buffer, int dest) = 0;
  /// Receives the buffer's elements from rank `source`.
  virtual void recv(BufferView buffer, int source) = 0;
  /// Returns the counter of the messages that this rank has sent to `peer` or, if `sent` is false, received from
  /// `peer`. The caller increases it. Messages have no tags; a receiver that learns the sender's counter notices a
  /// wrong message.
  [[nodiscard]] std::int64_t& messages(bool sent, int peer) { return messages_[{sent, peer}]; }

 protected:
  DeviceCollectives() = default;

 private:
  std::map<std::pair<bool, int>, std::int64_t> messages_;
};

}  // namespace mn

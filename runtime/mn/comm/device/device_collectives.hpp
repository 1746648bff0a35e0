/// Collectives that are enqueued on a GPU's stream, so the host does not wait for them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include <mn/core/buffer.hpp>

namespace mn {

/// A point in the sequence of work that a DeviceCollectives has enqueued.
class DeviceMark {
 public:
  virtual ~DeviceMark() = default;
  DeviceMark(const DeviceMark&) = delete;             ///< not copyable
  DeviceMark& operator=(const DeviceMark&) = delete;  ///< not copyable

  /// As DeviceCollectives::wait(), but waits only for work before the mark.
  virtual void wait() = 0;
  /// Whether wait() would return at once.
  [[nodiscard]] virtual bool is_done() = 0;

 protected:
  DeviceMark() = default;
};

/// Calls of a Communicator whose buffers all lie on its device. Their work is enqueued on the communicator's own
/// stream, and the host goes on at once. after() and join() order this work with the work of a stream of the program.
/// Between after() and join(), the program's stream may be capturing a CUDA graph; every rank must then capture, and
/// must have made the same calls once before with equal buffers. The caller must check the arguments. Only one thread
/// at a time may call. Streams are cudaStream_t's as void*; null is the legacy default stream.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  DeviceCollectives(const DeviceCollectives&) = delete;             ///< not copyable
  DeviceCollectives& operator=(const DeviceCollectives&) = delete;  ///< not copyable

  /// Work enqueued here from now on begins after the present work of `stream`.
  virtual void after(void* stream) = 0;
  /// Work enqueued on `stream` from now on begins after the work enqueued here so far.
  virtual void join(void* stream) = 0;
  /// Blocks until the enqueued work is done, and watches for errors: on an error the communicator is aborted, and
  /// wait() throws CommError.
  virtual void wait() = 0;
  /// Marks the work enqueued so far. Destroy the mark before the communicator.
  [[nodiscard]] virtual std::unique_ptr<DeviceMark> mark() = 0;

  /// Every rank ends with root's elements.
  virtual void bcast(BufferView buffer, int root) = 0;
  /// recv gets send.count elements of each rank, in rank order.
  virtual void allgather(ConstBufferView send, BufferView recv) = 0;
  /// Part i of send goes to rank i; part j of recv comes from rank j. `recv` may be `send`; the device then copies the
  /// elements first.
  virtual void alltoall(ConstBufferView send, BufferView recv) = 0;
  /// sent[r] goes to rank r, received[r] comes from rank r. Sender and receiver must pass equal counts for a part; an
  /// empty part is not sent. The buffers of `sent` and `received` must not overlap.
  virtual void exchange(std::span<const ConstBufferView> sent, std::span<const BufferView> received) = 0;
  /// Reduces in place. Ranks' results may differ by rounding. The minimum and the maximum of a NaN and any number are
  /// NaN.
  virtual void allreduce(BufferView buffer, ReduceOp op) = 0;
  /// On `root`, recv gets the reduction and may be `send`. On other ranks recv is ignored.
  virtual void reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root) = 0;
  /// recv gets the calling rank's part of the reduction of send.
  virtual void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) = 0;
  /// Each buffer becomes the sum over ranks times `scale`, in place.
  virtual void sum_gradients(std::span<const BufferView> gradients, double scale) = 0;

  // Messages. Only sender and receiver enqueue a message. Work enqueued after a message waits until the other rank has
  // reached the message, too. Two ranks that send to each other must use exchange().

  /// Sends the buffer to rank `dest`, which must receive an equal count and dtype.
  virtual void send(ConstBufferView buffer, int dest) = 0;
  /// Receives the buffer's elements from rank `source`.
  virtual void recv(BufferView buffer, int source) = 0;
  /// Number of messages to (`sent`) or from a rank, which callers count. Messages have no tags: a receiver that learns
  /// the sender's number notices if it would take the elements of another message.
  [[nodiscard]] std::int64_t& messages(bool sent, int peer) { return messages_[{sent, peer}]; }

 protected:
  DeviceCollectives() = default;

 private:
  std::map<std::pair<bool, int>, std::int64_t> messages_;
};

}  // namespace mn

/// Collectives in the order of a GPU's streams.
#pragma once

#include <memory>
#include <span>

#include <mn/core/buffer.hpp>

namespace mn {

/// A point in the order of enqueued work.
class DeviceMark {
 public:
  virtual ~DeviceMark() = default;
  DeviceMark(const DeviceMark&) = delete;             ///< not copyable
  DeviceMark& operator=(const DeviceMark&) = delete;  ///< not copyable

  /// DeviceCollectives::wait(), but only for work before the mark.
  virtual void wait() = 0;
  /// Whether wait() would return at once.
  [[nodiscard]] virtual bool is_done() = 0;

 protected:
  DeviceMark() = default;
};

/// Calls of a Communicator whose buffers all lie on its device. Their work is enqueued on the communicator's own
/// stream, and the host goes on at once. Between after() and join() the work is ordered with another stream, even while
/// that stream captures a CUDA graph; then every rank must capture, and must have made the calls once before with equal
/// buffers. The caller checks arguments. One thread at a time. Streams are cudaStream_t's as void*; null is the legacy
/// default stream.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  DeviceCollectives(const DeviceCollectives&) = delete;             ///< not copyable
  DeviceCollectives& operator=(const DeviceCollectives&) = delete;  ///< not copyable

  /// Later work begins after the present work of `stream`.
  virtual void after(void* stream) = 0;
  /// Later work of `stream` begins after the work enqueued so far.
  virtual void join(void* stream) = 0;
  /// Blocks until the enqueued work is done, and watches for errors: on an error the communicator is aborted, and
  /// wait() throws CommError.
  virtual void wait() = 0;
  /// Marks the work enqueued so far. Destroy the mark before the communicator.
  [[nodiscard]] virtual std::unique_ptr<DeviceMark> mark() = 0;

  /// Every rank ends with root's elements.
  virtual void bcast(BufferView buffer, int root) = 0;
  /// recv holds send.count elements of each rank, by rank.
  virtual void allgather(ConstBufferView send, BufferView recv) = 0;
  /// Part i of send goes to rank i. `recv` may be `send`, which then is copied on the device.
  virtual void alltoall(ConstBufferView send, BufferView recv) = 0;
  /// sent[r] goes to rank r, received[r] comes from rank r; both ends must give equal counts. An empty part needs no
  /// message. sent and received must not overlap.
  virtual void exchange(std::span<const ConstBufferView> sent, std::span<const BufferView> received) = 0;
  /// In place. Results are equal on all ranks to rounding. Minima and maxima keep a NaN.
  virtual void allreduce(BufferView buffer, ReduceOp op) = 0;
  /// On `root` recv, which may be `send`, gets the reduction; ignored on other ranks.
  virtual void reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root) = 0;
  /// recv gets the calling rank's part of the reduction of send.
  virtual void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) = 0;
  /// Each buffer becomes the sum over ranks times `scale`, in place.
  virtual void sum_gradients(std::span<const BufferView> gradients, double scale) = 0;

  // Messages, which only the two ranks enqueue, in one order with all work: later work waits until the other rank
  // reaches its half. Two ranks that send to each other must use exchange().

  /// To rank `dest`, which must receive an equal count and dtype.
  virtual void send(ConstBufferView buffer, int dest) = 0;
  /// From rank `source`.
  virtual void recv(BufferView buffer, int source) = 0;

 protected:
  DeviceCollectives() = default;
};

}  // namespace mn

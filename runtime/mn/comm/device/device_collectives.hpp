/// Collectives in the order of a GPU's streams.
#pragma once

#include <memory>
#include <span>

#include <mn/core/buffer.hpp>

namespace mn {

/// A point in what was enqueued.
class DeviceMark {
 public:
  virtual ~DeviceMark() = default;
  DeviceMark(const DeviceMark&) = delete;             ///< not copyable
  DeviceMark& operator=(const DeviceMark&) = delete;  ///< not copyable

  /// Blocks until what was enqueued before it is done; as DeviceCollectives::wait().
  virtual void wait() = 0;
  /// Whether wait() would return at once.
  [[nodiscard]] virtual bool is_done() = 0;

 protected:
  DeviceMark() = default;
};

/// The calls of a Communicator whose arguments all lie on its device, enqueued on the communicator's own stream: the
/// host goes on at once. Between after() and join() they are ordered with the work of another stream, also while that
/// stream captures a CUDA graph (then on every rank, and once before with the same buffers, so that memory is allocated
/// already). The caller checks arguments. One thread at a time.
///
/// Streams are cudaStream_t's as void*; null is the legacy default stream.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  DeviceCollectives(const DeviceCollectives&) = delete;             ///< not copyable
  DeviceCollectives& operator=(const DeviceCollectives&) = delete;  ///< not copyable

  /// What is enqueued from now on begins after the work that `stream` holds now.
  virtual void after(void* stream) = 0;
  /// `stream` goes on after what was enqueued so far.
  virtual void join(void* stream) = 0;
  /// Blocks until what was enqueued is done. Watches for errors meanwhile: CommError, and the communicator is aborted.
  virtual void wait() = 0;
  /// What was enqueued so far; to be destroyed before the communicator.
  [[nodiscard]] virtual std::unique_ptr<DeviceMark> mark() = 0;

  /// Every rank ends with what `root` held.
  virtual void bcast(BufferView buffer, int root) = 0;
  /// recv holds send.count elements of each rank, by rank.
  virtual void allgather(ConstBufferView send, BufferView recv) = 0;
  /// Part i of send goes to rank i. `recv` may be `send`, which then is copied on the device.
  virtual void alltoall(ConstBufferView send, BufferView recv) = 0;
  /// sent[r] goes to rank r, received[r] comes from rank r, whose sent[rank] is as long; no message for an empty part.
  /// sent and received must not overlap.
  virtual void exchange(std::span<const ConstBufferView> sent, std::span<const BufferView> received) = 0;
  /// In place. Equal on all ranks to rounding; a NaN stays one in minima and maxima too.
  virtual void allreduce(BufferView buffer, ReduceOp op) = 0;
  /// On `root` recv, which may be `send`, gets the reduction; ignored elsewhere.
  virtual void reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root) = 0;
  /// recv gets this rank's part of the reduction of send.
  virtual void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) = 0;
  /// The sum over ranks, times `scale`, of each buffer, in place.
  virtual void allreduce_grad(std::span<const BufferView> gradients, double scale) = 0;

  // Messages, which the two ranks alone enqueue. They have no tags, and one order with all that is enqueued here: what
  // is behind a message waits until the other rank has reached its half. Ranks that send to each other use exchange().
  // Communicator's send() and isend() keep that freedom to programs, and so go by MPI.

  /// To rank `dest`, which receives the same count and dtype.
  virtual void send(ConstBufferView buffer, int dest) = 0;
  /// From rank `source`.
  virtual void recv(BufferView buffer, int source) = 0;

 protected:
  DeviceCollectives() = default;
};

}  // namespace mn

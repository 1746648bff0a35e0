/// Collectives of a device with records for the flight recorder (flight_recorder.hpp).
///
/// Communicator::device_collectives() returns one. The communicator's own calls use the device's collectives directly,
/// because they are recorded already.
///
/// Invariants:
/// 1. Enqueued calls count among the group's collective calls: their numbers are equal on all ranks.
/// 2. A call is recorded as ended once it is enqueued. A wait is recorded with the number of the last enqueued call: a
///    rank that has not enqueued that call is the rank for which the others wait.
///
/// Cost: a record for each enqueued call and each wait (some 75 ns). Calls that a CUDA graph repeats are not recorded.
#pragma once

#include <memory>
#include <span>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/device/device_collectives.hpp>

namespace mn {

/// Records the waits for `mark`. `calls` belong to the communicator.
[[nodiscard]] std::unique_ptr<DeviceMark> recorded(std::unique_ptr<DeviceMark> mark, std::shared_ptr<CallCheck> calls);

class RecordedCollectives final : public DeviceCollectives {
 public:
  /// `device` must outlive the object.
  RecordedCollectives(DeviceCollectives& device, std::shared_ptr<CallCheck> calls);

  void after(void* stream) override { device_.after(stream); }
  void join(void* stream) override { device_.join(stream); }
  void wait() override;
  [[nodiscard]] std::unique_ptr<DeviceMark> mark() override { return recorded(device_.mark(), calls_); }
  void bcast(BufferView buffer, int root) override;
  void allgather(ConstBufferView send, BufferView recv) override;
  void alltoall(ConstBufferView send, BufferView recv) override;
  void exchange(std::span<const ConstBufferView> sent, std::span<const BufferView> received) override;
  void allreduce(BufferView buffer, ReduceOp op) override;
  void reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root) override;
  void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) override;
  void allreduce_grad(std::span<const BufferView> gradients, double scale) override;
  void send(ConstBufferView buffer, int dest) override;
  void recv(BufferView buffer, int source) override;

 private:
  DeviceCollectives& device_;
  std::shared_ptr<CallCheck> calls_;
};

}  // namespace mn

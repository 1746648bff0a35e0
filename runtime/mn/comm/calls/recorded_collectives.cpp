#include <mn/comm/calls/recorded_collectives.hpp>

#include <utility>

namespace mn {
namespace {

class RecordedMark final : public DeviceMark {
 public:
  RecordedMark(std::unique_ptr<DeviceMark> mark, std::shared_ptr<CallCheck> calls)
      : mark_(std::move(mark)), calls_(std::move(calls)), number_(calls_->number()) {}
  void wait() override {
    const RecordedCall call = calls_->device_wait(number_);  // (2): number of the last enqueued call
    mark_->wait();
  }
  [[nodiscard]] bool is_done() override { return mark_->is_done(); }

 private:
  std::unique_ptr<DeviceMark> mark_;
  std::shared_ptr<CallCheck> calls_;
  std::uint64_t number_;
};

}  // namespace

std::unique_ptr<DeviceMark> recorded(std::unique_ptr<DeviceMark> mark, std::shared_ptr<CallCheck> calls) {
  return std::make_unique<RecordedMark>(std::move(mark), std::move(calls));
}

RecordedCollectives::RecordedCollectives(DeviceCollectives& device, std::shared_ptr<CallCheck> calls)
    : device_(device), calls_(std::move(calls)) {}

void RecordedCollectives::wait() {
  const RecordedCall call = calls_->device_wait(calls_->number());  // (2): number of the last enqueued call
  device_.wait();
}

void RecordedCollectives::bcast(BufferView buffer, int root) {
  const RecordedCall call = calls_->enqueued("bcast", buffer);
  device_.bcast(buffer, root);
}

void RecordedCollectives::allgather(ConstBufferView send, BufferView recv) {
  const RecordedCall call = calls_->enqueued("allgather", send);
  device_.allgather(send, recv);
}

void RecordedCollectives::alltoall(ConstBufferView send, BufferView recv) {
  const RecordedCall call = calls_->enqueued("alltoall", send);
  device_.alltoall(send, recv);
}

void RecordedCollectives::exchange(std::span<const ConstBufferView> sent, std::span<const BufferView> received) {
  // Counts differ between ranks, and would tell a reader nothing.
  const RecordedCall call = calls_->enqueued("alltoallv", {});
  device_.exchange(sent, received);
}

void RecordedCollectives::allreduce(BufferView buffer, ReduceOp op) {
  const RecordedCall call = calls_->enqueued("allreduce", buffer);
  device_.allreduce(buffer, op);
}

void RecordedCollectives::reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root) {
  const RecordedCall call = calls_->enqueued("reduce", send);
  device_.reduce(send, recv, op, root);
}

void RecordedCollectives::reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) {
  const RecordedCall call = calls_->enqueued("reduce_scatter", recv);
  device_.reduce_scatter(send, recv, op);
}

void RecordedCollectives::allreduce_grad(std::span<const BufferView> gradients, double scale) {
  ConstBufferView what;
  // One call for all gradients: the record has the sum of their elements, and the dtype of the last.
  for (const BufferView& each : gradients) what = {nullptr, what.count + each.count, each.dtype};
  const RecordedCall call = calls_->enqueued("allreduce_grad", what);
  device_.allreduce_grad(gradients, scale);
}

void RecordedCollectives::send(ConstBufferView buffer, int dest) {
  const RecordedCall call = calls_->enqueued_message("send", buffer, dest);
  device_.send(buffer, dest);
}

void RecordedCollectives::recv(BufferView buffer, int source) {
  const RecordedCall call = calls_->enqueued_message("recv", buffer, source);
  device_.recv(buffer, source);
}

}  // namespace mn

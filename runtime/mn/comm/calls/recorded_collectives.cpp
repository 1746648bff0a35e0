#include <mn/comm/calls/recorded_collectives.hpp>

#include <span>
#include <utility>

namespace mn {
namespace {

class RecordedMark final : public DeviceMark {
 public:
  RecordedMark(std::unique_ptr<DeviceMark> mark, std::shared_ptr<CallCheck> calls)
      : mark_(std::move(mark)), calls_(std::move(calls)), number_(calls_->number()) {}
  void wait() override {
    const RecordedCall call = calls_->device_wait(number_);  // invariant 2: the last call before the mark
    mark_->wait();
  }
  [[nodiscard]] bool is_done() override { return mark_->is_done(); }

 private:
  std::unique_ptr<DeviceMark> mark_;
  std::shared_ptr<CallCheck> calls_;
  std::uint64_t number_;
};

class RecordedCollectives final : public DeviceCollectives {
 public:
  RecordedCollectives(DeviceCollectives& device, std::shared_ptr<CallCheck> calls)
      : device_(device), calls_(std::move(calls)) {}

  void after(void* stream) override { device_.after(stream); }
  void join(void* stream) override { device_.join(stream); }
  void wait() override {
    const RecordedCall call = calls_->device_wait(calls_->number());  // invariant 2: the last enqueued call
    device_.wait();
  }
  [[nodiscard]] std::unique_ptr<DeviceMark> mark() override { return recorded(device_.mark(), calls_); }
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    const RecordedCall call = calls_->enqueued("allocate", {nullptr, bytes, DType::kUInt8});
    return device_.allocate(bytes);
  }
  void bcast(BufferView buffer, int root) override {
    const RecordedCall call = calls_->enqueued("bcast", buffer);
    device_.bcast(buffer, root);
  }
  void allgather(ConstBufferView send, BufferView recv) override {
    const RecordedCall call = calls_->enqueued("allgather", send);
    device_.allgather(send, recv);
  }
  void alltoall(ConstBufferView send, BufferView recv) override {
    const RecordedCall call = calls_->enqueued("alltoall", send);
    device_.alltoall(send, recv);
  }
  void exchange(std::span<const ConstBufferView> sent, std::span<const BufferView> received) override {
    // Without a count, because the number of elements differs from rank to rank.
    const RecordedCall call = calls_->enqueued("alltoallv", {});
    device_.exchange(sent, received);
  }
  void allreduce(BufferView buffer, ReduceOp op) override {
    const RecordedCall call = calls_->enqueued("allreduce", buffer);
    device_.allreduce(buffer, op);
  }
  void reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root) override {
    const RecordedCall call = calls_->enqueued("reduce", send);
    device_.reduce(send, recv, op, root);
  }
  void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) override {
    const RecordedCall call = calls_->enqueued("reduce_scatter", recv);
    device_.reduce_scatter(send, recv, op);
  }
  void sum_gradients(std::span<const BufferView> gradients, double scale) override {
    const RecordedCall call = calls_->enqueued("allreduce_grad", counted(gradients));
    device_.sum_gradients(gradients, scale);
  }
  void send(ConstBufferView buffer, int dest) override {
    const RecordedCall call = calls_->enqueued_message("send", buffer, dest);
    device_.send(buffer, dest);
  }
  void recv(BufferView buffer, int source) override {
    const RecordedCall call = calls_->enqueued_message("recv", buffer, source);
    device_.recv(buffer, source);
  }

 private:
  DeviceCollectives& device_;
  std::shared_ptr<CallCheck> calls_;
};

}  // namespace

std::unique_ptr<DeviceMark> recorded(std::unique_ptr<DeviceMark> mark, std::shared_ptr<CallCheck> calls) {
  return std::make_unique<RecordedMark>(std::move(mark), std::move(calls));
}

std::unique_ptr<DeviceCollectives> recorded(DeviceCollectives& device, std::shared_ptr<CallCheck> calls) {
  return std::make_unique<RecordedCollectives>(device, std::move(calls));
}

}  // namespace mn

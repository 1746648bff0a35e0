#include <mn/tensor/ordered_calls.hpp>

#include <mn/tensor/stream_order.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

template <class Enqueue, class Call>
void in_order(Communicator& comm, bool enqueued, const Enqueue& enqueue, const Call& call) {
  enqueued ? in_stream_order(comm, enqueue, call) : call();
}

template <class View>
std::vector<View> views_of(const std::vector<at::Tensor>& tensors) {
  std::vector<View> views;
  for (const at::Tensor& tensor : tensors) views.push_back(tensor.defined() ? View(buffer_view(tensor)) : View());
  return views;
}

}  // namespace

bool is_enqueued(Communicator& comm, const at::Tensor& tensor) {
  if (tensor.device() != c10::Device(comm.device()) || tensor.is_cpu()) return false;
  const at::ScalarType dtype = tensor.scalar_type();
  if (dtype == at::kShort || dtype == at::kUInt16) return false;  // NCCL has no integers of 16 bits
  return !comm.debug() && comm.device_collectives() != nullptr;
}

void ordered_bcast(Communicator& comm, const at::Tensor& tensor, int root) {
  in_order(
      comm, is_enqueued(comm, tensor), [&](DeviceCollectives& device) { device.bcast(buffer_view(tensor), root); },
      [&] { comm.bcast(tensor, root); });
}

void ordered_allgather(Communicator& comm, const at::Tensor& own, const at::Tensor& all) {
  in_order(
      comm, is_enqueued(comm, own),
      [&](DeviceCollectives& device) { device.allgather(buffer_view(own), buffer_view(all)); },
      [&] { comm.allgather(own, all); });
}

void ordered_allreduce(Communicator& comm, const at::Tensor& tensor) {
  in_order(
      comm, is_enqueued(comm, tensor),
      [&](DeviceCollectives& device) { device.allreduce(buffer_view(tensor), ReduceOp::kSum); },
      [&] { comm.allreduce(tensor); });
}

void ordered_reduce(Communicator& comm, const at::Tensor& own, const at::Tensor& sum, int root) {
  const BufferView result = sum.defined() ? buffer_view(sum) : BufferView();
  in_order(
      comm, is_enqueued(comm, own),
      [&](DeviceCollectives& device) { device.reduce(buffer_view(own), result, ReduceOp::kSum, root); },
      [&] { comm.reduce(buffer_view(own), result, ReduceOp::kSum, root); });
}

void ordered_reduce_scatter(Communicator& comm, const at::Tensor& all, const at::Tensor& own) {
  in_order(
      comm, is_enqueued(comm, all),
      [&](DeviceCollectives& device) { device.reduce_scatter(buffer_view(all), buffer_view(own), ReduceOp::kSum); },
      [&] { comm.reduce_scatter(all, own); });
}

void ordered_exchange(Communicator& comm, const std::vector<at::Tensor>& sent, const std::vector<at::Tensor>& received,
                      bool enqueued) {
  const auto enqueue = [&](DeviceCollectives& device) {
    device.exchange(views_of<ConstBufferView>(sent), views_of<BufferView>(received));
  };
  const auto by_messages = [&] {
    const auto rank = static_cast<std::size_t>(comm.rank()), size = sent.size();
    if (sent[rank].defined()) received[rank].copy_(sent[rank]);
    std::vector<Request> requests;  // all sends begin first: a rank waits only for ranks that have not made the call
    for (std::size_t step = 1; step < size; ++step) {
      const std::size_t dest = (rank + step) % size;
      if (sent[dest].defined())
        requests.push_back(comm.isend(sent[dest], static_cast<int>(dest), Communicator::kMaxTag));
    }
    for (std::size_t step = 1; step < size; ++step) {
      const std::size_t source = (rank + size - step) % size;
      if (received[source].defined()) comm.recv(received[source], static_cast<int>(source), Communicator::kMaxTag);
    }
    for (Request& each : requests) each.wait();
  };
  in_order(comm, enqueued, enqueue, by_messages);
}

void ordered_send(Communicator& comm, const at::Tensor& tensor, int dest, int tag, bool enqueued) {
  if (tensor.numel() == 0 && enqueued) return;  // ordered_recv() expects no message either
  in_order(
      comm, enqueued, [&](DeviceCollectives& device) { device.send(buffer_view(tensor), dest); },
      [&] { comm.send(tensor, dest, tag); });
}

void ordered_recv(Communicator& comm, const at::Tensor& tensor, int source, int tag, bool enqueued) {
  if (tensor.numel() == 0 && enqueued) return;
  in_order(
      comm, enqueued, [&](DeviceCollectives& device) { device.recv(buffer_view(tensor), source); },
      [&] { comm.recv(tensor, source, tag); });
}

}  // namespace mn

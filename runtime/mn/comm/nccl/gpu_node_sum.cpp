#include <mn/comm/nccl/gpu_node_sum.hpp>

#include <algorithm>
#include <utility>

#include <mn/comm/device/host_copies.hpp>
#include <mn/comm/device/ordered_sum.hpp>

namespace mn {
namespace {

/// Returns the color for MPI_Comm_split: equal for ranks with the same slice, -1 for a rank without a slice.
int peer_group(const Topology& topology, GpuNodeSum::Form form) {
  return form == GpuNodeSum::Form::kSlices || topology.intra_rank == 0 ? topology.intra_rank : -1;
}

}  // namespace

/// The pieces of one buffer. Each piece is cut into equal slices, one for each rank of the node; the last rank also
/// takes the remainder.
class GpuNodeSum::Pieces final : public HostPieces::Device {
 public:
  Pieces(GpuNodeSum& node, BufferView all, std::size_t step) : node_(node), all_(all), step_(step) {}

  void collect(std::size_t k) override {
    const BufferView whole = piece(k);
    if (node_.form_ == Form::kLeaders) {
      node_.nccl_.reduce(whole, whole, ReduceOp::kSum, 0, node_.stream_);
    } else {
      const BufferView even = even_part(whole);
      const BufferView rest = whole.slice(even.count, whole.count - even.count);
      if (even.count > 0) node_.nccl_.reduce_scatter(even, own_part(even), ReduceOp::kSum, node_.stream_);
      if (rest.count > 0) node_.nccl_.reduce(rest, rest, ReduceOp::kSum, last_rank(), node_.stream_);
    }
    const BufferView mine = own(k);
    if (mine.count == 0) return;
    CudaStream& copies = node_.from_device_[k % 2];
    copies.wait_for(node_.stream_.handle());
    if (is_direct()) return;
    copies.copy_to_host(host(k), mine.data, mine.bytes());  // inv. 2: after host(k)'s last copy
  }
  std::size_t part_elements(std::size_t k) override { return own(k).count; }
  std::byte* part(std::size_t k) override {
    node_.nccl_.wait(node_.from_device_[k % 2]);  // inv. 4: MPI does not wait for streams
    return is_direct() ? static_cast<std::byte*>(own(k).data) : host(k);
  }
  void spread(std::size_t k) override {
    const BufferView whole = piece(k);
    if (const BufferView mine = own(k); mine.count > 0 && !is_direct()) {
      node_.to_device_.copy_to_device(mine.data, host(k), mine.bytes());
      node_.stream_.wait_for(node_.to_device_.handle());  // inv. 2: NCCL waits for the copy
    }
    if (node_.form_ == Form::kLeaders) return node_.nccl_.bcast(whole, 0, node_.stream_);
    const BufferView even = even_part(whole);
    const BufferView rest = whole.slice(even.count, whole.count - even.count);
    if (even.count > 0) node_.nccl_.allgather(own_part(even), even, node_.stream_);
    if (rest.count > 0) node_.nccl_.bcast(rest, last_rank(), node_.stream_);
  }

 private:
  [[nodiscard]] bool is_direct() const { return node_.route_ == Route::kDevice; }
  [[nodiscard]] int last_rank() const { return node_.topology_.intra_size - 1; }
  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(node_.topology_.intra_rank); }
  [[nodiscard]] std::byte* host(std::size_t k) const { return node_.host_[k % HostPieces::kUnderWay].get(); }
  [[nodiscard]] BufferView piece(std::size_t k) const {
    return all_.slice(k * step_, std::min(step_, all_.count - k * step_));
  }
  /// The elements that the node's ranks can share evenly: all but the remainder.
  [[nodiscard]] BufferView even_part(const BufferView& whole) const {
    return whole.slice(0, whole.count / node_.slices() * node_.slices());
  }
  [[nodiscard]] BufferView own_part(const BufferView& even) const {
    const std::size_t part = even.count / node_.slices();
    return even.slice(rank() * part, part);
  }
  /// The elements of piece k that this rank exchanges with other nodes.
  [[nodiscard]] BufferView own(std::size_t k) const {
    const BufferView whole = piece(k);
    if (!node_.between_nodes_) return whole.slice(0, 0);
    const std::size_t part = whole.count / node_.slices();
    return whole.slice(rank() * part, rank() + 1 == node_.slices() ? whole.count - rank() * part : part);
  }

  GpuNodeSum& node_;
  BufferView all_;
  std::size_t step_;
};

void GpuNodeSum::sum(const OrderedSum& operands, DType dtype) {
  if (operands.count == 0) return;
  sum_on_device(operands, dtype, sum_stream_.handle());
  nccl_.wait(sum_stream_);  // invariants 3 and 4: before MPI reads the sum
}

GpuNodeSum::GpuNodeSum(MPI_Comm comm, const Topology& topology, Device device, Form form, Route route,
                       std::optional<DType> wire)
    : form_(form),
      route_(route),
      topology_(topology),
      node_(Mpi::split(comm, topology.inter_rank, topology.rank)),
      peers_(Mpi::split(comm, peer_group(topology, form), topology.rank)),
      stream_(device.index),
      sum_stream_(device.index),
      from_device_{CudaStream(device.index), CudaStream(device.index)},
      to_device_(device.index),
      packer_(wire),
      nccl_(node_.get(), device) {
  if (!peers_) return;
  if (route == Route::kHost) {
    between_nodes_.emplace(peers_.get());
    return;
  }
  DeviceSum device_sum{[this](std::size_t bytes) { return sum_scratch_.reserve(bytes, sum_stream_); },
                       [this](const OrderedSum& operands, DType dtype) { sum(operands, dtype); }};
  between_nodes_.emplace(peers_.get(), std::move(device_sum));
}

void GpuNodeSum::sum_gradients(std::span<const BufferView> gradients, double scale) {
  for_each_stream(gradients, [&](void* stream) { stream_.wait_for(stream); });
  packer_.apply(gradients, scale, stream_, [&](BufferView whole) {
    if (topology_.inter_size == 1) return nccl_.allreduce(whole, ReduceOp::kSum, stream_);
    allreduce(whole);
  });
  nccl_.wait(stream_);
}

void GpuNodeSum::allreduce(BufferView all) {
  for (auto& each : host_) {
    if (!each && between_nodes_ && route_ == Route::kHost) each = cuda_allocate_pinned(HostPieces::kBytes);
  }
  const std::size_t element_bytes = size_of(all.dtype);
  const std::size_t most =
      std::min(HostPieces::kBytes / element_bytes, MessageReducer::most_elements(topology_.inter_size, element_bytes));
  // The node's last rank also takes a remainder of less than slices() elements. Its part and the remainder together
  // have at most `most` elements.
  const std::size_t part = most > slices() ? most - slices() : 1;
  const std::size_t step = part * slices();
  Pieces pieces(*this, all, step);
  HostPieces::allreduce((all.count + step - 1) / step, part + slices(), all.dtype,
                        between_nodes_ ? &*between_nodes_ : nullptr, pieces);
}

}  // namespace mn

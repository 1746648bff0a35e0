// ChainerMN's hierarchical, non_cuda_aware and two_dimensional on GPUs: NCCL within the node, MPI between nodes through
// page-locked host memory. The leaders' form sums everything on the node's first rank, which alone talks to other
// nodes; the slices' form gives each rank of the node its slice to sum and to exchange with its peers on other nodes.
#include <algorithm>
#include <array>

#include <mn/comm/device_packer.hpp>
#include <mn/comm/flat.hpp>
#include <mn/comm/nccl.hpp>
#include <mn/comm/nccl_backends.hpp>
#include <mn/comm/ordered_reducer.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{8} << 20;  // large enough for full speed of the bus and the network

/// Sums device memory over a few ranks by way of the host: while MPI works on one piece, the next one is copied.
class HostReducer {
 public:
  /// `comm` is borrowed.
  HostReducer(MPI_Comm comm, std::size_t count_limit) : reducer_(comm, count_limit) {}

  void allreduce(BufferView buffer, Nccl& nccl, CudaStream& stream) {
    for (auto& piece : pieces_) {
      if (!piece) piece = cuda_allocate_pinned(kPieceBytes);
    }
    const std::size_t step = kPieceBytes / size_of(buffer.dtype);
    const auto piece_at = [&](std::size_t first) { return buffer.slice(first, std::min(step, buffer.count - first)); };
    const auto copy_in = [&](std::size_t first, std::byte* host) {
      if (first < buffer.count) stream.copy_to_host(host, piece_at(first).data, piece_at(first).bytes());
    };
    copy_in(0, pieces_[0].get());
    for (std::size_t first = 0, turn = 0; first < buffer.count; first += step, turn = 1 - turn) {
      nccl.wait(stream);
      copy_in(first + step, pieces_[1 - turn].get());
      const BufferView piece = piece_at(first);
      reducer_.allreduce(pieces_[turn].get(), piece.count, {piece.dtype, ReduceOp::kSum, 1.0});
      stream.copy_to_device(piece.data, pieces_[turn].get(), piece.bytes());
    }
  }

 private:
  OrderedReducer reducer_;
  std::array<HostPinned, 2> pieces_;
};

enum class Form { kLeaders, kSlices };

class NodeReduction {
 public:
  /// `comm` is borrowed.
  NodeReduction(MPI_Comm comm, const Topology& topology, Device device, std::size_t count_limit, Form form,
                std::optional<DType> wire)
      : form_(form),
        topology_(topology),
        node_(Mpi::split(comm, topology.inter_rank, topology.rank)),
        peers_(Mpi::split(comm, peer_group(topology, form), topology.rank)),
        stream_(device.index, CudaStream::Order::kFree),
        nccl_(node_.get(), device),
        packer_(wire) {
    if (peers_) between_nodes_.emplace(peers_.get(), count_limit);
  }

  void allreduce_grad(std::span<const BufferView> gradients, double scale) {
    stream_.wait_for(nullptr);
    packer_.apply(gradients, scale, stream_, [&](BufferView whole, double factor) {
      form_ == Form::kLeaders ? through_leaders(whole, factor) : in_slices(whole, factor);
    });
    nccl_.wait(stream_);
  }

 private:
  /// Ranks of one colour sum the same elements on different nodes; those of none sum nothing.
  static int peer_group(const Topology& topology, Form form) {
    return form == Form::kSlices || topology.intra_rank == 0 ? topology.intra_rank : -1;
  }

  void through_leaders(BufferView whole, double scale) {
    nccl_.reduce(whole, scale, 0, stream_);
    if (topology_.inter_size > 1 && between_nodes_) between_nodes_->allreduce(whole, nccl_, stream_);
    nccl_.bcast(whole, 0, stream_);
  }

  /// Equal slices, and what is left over goes to the last rank of the node.
  void in_slices(BufferView whole, double scale) {
    const auto ranks = static_cast<std::size_t>(topology_.intra_size);
    const std::size_t part = whole.count / ranks;
    const int last = topology_.intra_size - 1;
    const BufferView even = whole.slice(0, part * ranks);
    const BufferView rest = whole.slice(even.count, whole.count - even.count);
    BufferView mine = whole.slice(static_cast<std::size_t>(topology_.intra_rank) * part, part);
    if (part > 0) nccl_.reduce_scatter(even, mine, ReduceOp::kSum, scale, stream_);
    if (rest.count > 0) nccl_.reduce(rest, scale, last, stream_);
    BufferView exchanged = mine;
    if (topology_.intra_rank == last) exchanged.count += rest.count;
    if (topology_.inter_size > 1) between_nodes_->allreduce(exchanged, nccl_, stream_);
    if (part > 0) nccl_.allgather(mine, even, stream_);
    if (rest.count > 0) nccl_.bcast(rest, last, stream_);
  }

  Form form_;
  Topology topology_;
  Mpi node_;
  Mpi peers_;
  CudaStream stream_;
  Nccl nccl_;
  DevicePacker packer_;
  std::optional<HostReducer> between_nodes_;
};

class NodeNccl final : public Flat {
 public:
  NodeNccl(CommunicatorSetup setup, Form form) : Flat(std::move(setup)) {
    reduction_.emplace(mpi_comm(), topology(), device(), count_limit(), form, allreduce_grad_dtype());
  }

 private:
  bool do_allreduce_grad_on_device(std::span<const BufferView> gradients, double scale) override {
    reduction_->allreduce_grad(gradients, scale);
    return true;
  }
  void do_finalize() override { reduction_.reset(); }

  std::optional<NodeReduction> reduction_;
};

}  // namespace

std::shared_ptr<Communicator> make_hierarchical_nccl(CommunicatorSetup setup) {
  return std::make_shared<NodeNccl>(std::move(setup), Form::kLeaders);
}

std::shared_ptr<Communicator> make_two_dimensional_nccl(CommunicatorSetup setup) {
  if (setup.topology.uniform()) return std::make_shared<NodeNccl>(std::move(setup), Form::kSlices);
  if (setup.topology.rank == 0) {
    log_warning(
        "communicator two_dimensional: nodes with different numbers of ranks; their first ranks do all the "
        "exchange between nodes, as with hierarchical");
  }
  return make_hierarchical_nccl(std::move(setup));
}

}  // namespace mn

// ChainerMN's backends on GPUs, and their table.
//
// pure_nccl: gradients in one NCCL allreduce over all ranks, whatever their nodes, and so every other call whose
// buffers lie on the GPU. single_node is the same for ranks of one node. hierarchical, non_cuda_aware and
// two_dimensional: NCCL within the node, MPI between nodes through page-locked host memory. The leaders' form sums
// everything on the node's first rank, which alone talks to other nodes; the slices' form gives each rank of the node
// its slice to sum and to exchange with its peers on other nodes.
//
// allreduce_grad() and the collectives are called on all ranks at once.
//
// Invariants:
// 1. What an NCCL communicator's calls use (streams, packed gradients, page-locked memory) is made before it and
//    destroyed after it: to free memory waits for the whole device, and so for a collective that other ranks never
//    join, until the communicator is aborted.
// 2. Packing, all of NCCL's work and unpacking are enqueued on one stream, and so in the same order on all ranks. Only
//    copies to and from the host have streams of their own.
// 3. A rank waits for a stream through Nccl::wait() alone, which notices errors of NCCL.
//
// Cost for gradients of B bytes, n ranks, m nodes: pure_nccl, and all on a single node, one NCCL allreduce of B.
// Leaders: NCCL reduce and bcast of B in the node, and per node one OrderedReducer::allreduce of B over m ranks. Slices:
// NCCL reduce_scatter and allgather of B, and per rank one OrderedReducer::allreduce of B m / n. Each rank's part goes
// between nodes in pieces of 4 MiB, four of which are under way: in NCCL, in a copy to the host, in messages, and in a
// copy back and in NCCL again.
// Source: T. Akiba, K. Fukuda, S. Suzuki, "ChainerMN: Scalable Distributed Deep Learning Framework", 2017,
// arXiv:1710.11351.
#include <algorithm>
#include <array>
#include <optional>

#include <mn/comm/device_collectives.hpp>
#include <mn/comm/device_packer.hpp>
#include <mn/comm/device_reductions.hpp>
#include <mn/comm/host_stage.hpp>
#include <mn/comm/mpi_backends.hpp>
#include <mn/comm/nccl.hpp>
#include <mn/comm/ordered_reducer.hpp>
#include <mn/comm/progress.hpp>
#include <mn/comm/registry.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/core/nccl_versions.hpp>

namespace mn {
namespace {

/// What is known to go wrong with this NCCL, once, by rank 0.
void warn_of_known_faults(const Topology& topology) {
  if (topology.rank != 0) return;
  static const bool told = [] {
    const std::string faults = nccl_faults(nccl_version());
    if (!faults.empty()) log_warning(faults);
    return true;
  }();
  static_cast<void>(told);
}

class NcclCollectives final : public DeviceCollectives {
 public:
  NcclCollectives(MPI_Comm comm, Device device, std::optional<DType> wire)
      : stream_(device.index), packer_(wire), nccl_(comm, device) {}

  void after(void* stream) override { stream_.wait_for(stream); }
  void join(void* stream) override { stream_.go_before(stream); }
  void wait() override { nccl_.wait(stream_); }

  void bcast(BufferView buffer, int root) override { nccl_.bcast(buffer, root, stream_); }
  void allgather(ConstBufferView send, BufferView recv) override { nccl_.allgather(send, recv, stream_); }
  void alltoall(ConstBufferView send, BufferView recv) override {
    if (send.data == recv.data && send.count > 0) {
      std::byte* const copy = scratch_.reserve(send.bytes(), stream_);
      stream_.copy_on_device(copy, send.data, send.bytes());
      send.data = copy;
    }
    nccl_.alltoall(send, recv, stream_);
  }
  void allreduce(BufferView buffer, ReduceOp op) override { reductions_.allreduce(buffer, op, nccl_, stream_); }
  void reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root) override {
    reductions_.reduce(send, recv, op, root, nccl_, stream_);
  }
  void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) override {
    reductions_.reduce_scatter(send, recv, op, nccl_, stream_);
  }
  void allreduce_grad(std::span<const BufferView> gradients, double scale) override {
    packer_.apply(gradients, scale, stream_,
                  [&](BufferView whole, double factor) { nccl_.allreduce(whole, ReduceOp::kSum, factor, stream_); });
  }

 private:
  CudaStream stream_;
  DevicePacker packer_;
  DeviceReductions reductions_;
  DeviceScratch scratch_;
  Nccl nccl_;  // last: invariant 1
};

class PureNccl final : public Flat {
 public:
  explicit PureNccl(CommunicatorSetup setup) : Flat(std::move(setup)) {
    warn_of_known_faults(topology());
    collectives_.emplace(internal_comm(), device(), allreduce_grad_dtype());
  }

  DeviceCollectives* device_collectives() noexcept override { return collectives_ ? &*collectives_ : nullptr; }

 private:
  void do_finalize() override { collectives_.reset(); }

  std::optional<NcclCollectives> collectives_;
};

/// Who talks to the other nodes: the node's first rank, or each rank for its slice.
enum class Form { kLeaders, kSlices };

class NodeReduction {
 public:
  /// `comm` is borrowed.
  NodeReduction(MPI_Comm comm, const Topology& topology, Device device, std::size_t count_limit, Form form,
                std::optional<DType> wire)
      : form_(form),
        topology_(topology),
        count_limit_(count_limit),
        node_(Mpi::split(comm, topology.inter_rank, topology.rank)),
        peers_(Mpi::split(comm, peer_group(topology, form), topology.rank)),
        stream_(device.index),
        from_device_{CudaStream(device.index), CudaStream(device.index)},
        to_device_(device.index),
        packer_(wire),
        nccl_(node_.get(), device) {
    if (peers_) between_nodes_.emplace(peers_.get(), count_limit);
  }

  void allreduce_grad(std::span<const BufferView> gradients, double scale) {
    for_each_stream(gradients, [&](void* stream) { stream_.wait_for(stream); });
    packer_.apply(gradients, scale, stream_, [&](BufferView whole, double factor) {
      if (topology_.inter_size == 1) return nccl_.allreduce(whole, ReduceOp::kSum, factor, stream_);
      in_pieces(whole, factor);
    });
    nccl_.wait(stream_);
  }

 private:
  static constexpr std::size_t kHostPieceBytes = std::size_t{4} << 20;  // for full speed of the bus and the network
  static constexpr std::size_t kUnderWay = 4;

  /// A piece of the gradients, and the part of it that this rank exchanges with other nodes.
  struct Piece {
    BufferView whole;
    BufferView mine;
  };

  /// Ranks of one color sum the same elements on different nodes; the others sum none.
  static int peer_group(const Topology& topology, Form form) {
    return form == Form::kSlices || topology.intra_rank == 0 ? topology.intra_rank : -1;
  }
  /// Ranks of a node that have a part.
  [[nodiscard]] std::size_t slices() const {
    return form_ == Form::kSlices ? static_cast<std::size_t>(topology_.intra_size) : 1;
  }

  /// The first `length` elements from `first` on: equal slices, and what is left over goes to the last rank of the node.
  [[nodiscard]] Piece piece_of(BufferView all, std::size_t first, std::size_t length) const {
    Piece piece{all.slice(first, length), all.slice(first, 0)};
    if (!between_nodes_) return piece;
    const std::size_t part = length / slices();
    const auto rank = static_cast<std::size_t>(topology_.intra_rank);
    piece.mine = piece.whole.slice(rank * part, rank + 1 == slices() ? length - rank * part : part);
    return piece;
  }

  void in_pieces(BufferView all, double scale) {
    const std::size_t element_bytes = size_of(all.dtype);
    const std::size_t most = std::min(kHostPieceBytes / element_bytes - slices(),  // room for what is left over
                                      OrderedReducer::most_elements(topology_.inter_size, element_bytes, count_limit_));
    const std::size_t step = most * slices();
    const auto piece_at = [&](std::size_t k) { return piece_of(all, k * step, std::min(step, all.count - k * step)); };
    const PendingRequest messages;  // waits for the GPU let MPI go on with them
    std::array<OrderedReducer::Piece, kUnderWay> exchanged;
    for (auto& each : host_) {
      if (!each && between_nodes_) each = cuda_allocate_pinned(kHostPieceBytes);
    }
    in_stages((all.count + step - 1) / step, [&](std::size_t k) { collect(piece_at(k), scale, k); },
              [&](std::size_t k) {
                const BufferView mine = piece_at(k).mine;
                if (mine.count == 0) return;
                nccl_.wait(from_device_[k % 2]);
                exchanged[k % kUnderWay] =
                    between_nodes_->begin(host_[k % kUnderWay].get(), mine.count, k, most + slices(), mine.dtype);
              },
              [&](std::size_t k) {
                if (piece_at(k).mine.count == 0) return;
                between_nodes_->reduce(exchanged[k % kUnderWay], {all.dtype, ReduceOp::kSum, 1.0});
              },
              [&](std::size_t k) {
                if (piece_at(k).mine.count > 0) OrderedReducer::finish(exchanged[k % kUnderWay]);
                spread(piece_at(k), k);
              });
  }

  /// Enqueues the sum over the node, and the copy of this rank's part of it to the host.
  void collect(const Piece& piece, double scale, std::size_t number) {
    if (form_ == Form::kLeaders) {
      nccl_.reduce(piece.whole, piece.whole, ReduceOp::kSum, scale, 0, stream_);
    } else {
      const BufferView even = even_part(piece);
      const BufferView rest = piece.whole.slice(even.count, piece.whole.count - even.count);
      if (even.count > 0) nccl_.reduce_scatter(even, own_part(even), ReduceOp::kSum, scale, stream_);
      if (rest.count > 0) nccl_.reduce(rest, rest, ReduceOp::kSum, scale, topology_.intra_size - 1, stream_);
    }
    if (piece.mine.count == 0) return;
    CudaStream& copies = from_device_[number % 2];
    copies.wait_for(stream_.handle());
    copies.wait_for(to_device_.handle());  // which still copies the piece kUnderWay before from the same memory
    copies.copy_to_host(host_[number % kUnderWay].get(), piece.mine.data, piece.mine.bytes());
  }

  /// Enqueues the copy of this rank's part back, and what gives all parts to the node.
  void spread(const Piece& piece, std::size_t number) {
    if (piece.mine.count > 0) {
      to_device_.copy_to_device(piece.mine.data, host_[number % kUnderWay].get(), piece.mine.bytes());
      stream_.wait_for(to_device_.handle());
    }
    if (form_ == Form::kLeaders) return nccl_.bcast(piece.whole, 0, stream_);
    const BufferView even = even_part(piece);
    const BufferView rest = piece.whole.slice(even.count, piece.whole.count - even.count);
    if (even.count > 0) nccl_.allgather(own_part(even), even, stream_);
    if (rest.count > 0) nccl_.bcast(rest, topology_.intra_size - 1, stream_);
  }

  /// What the ranks of the node share evenly.
  [[nodiscard]] BufferView even_part(const Piece& piece) const {
    return piece.whole.slice(0, piece.whole.count / slices() * slices());
  }
  [[nodiscard]] BufferView own_part(const BufferView& even) const {
    const std::size_t part = even.count / slices();
    return even.slice(static_cast<std::size_t>(topology_.intra_rank) * part, part);
  }

  Form form_;
  Topology topology_;
  std::size_t count_limit_;
  Mpi node_;
  Mpi peers_;
  std::optional<OrderedReducer> between_nodes_;
  std::array<HostPinned, kUnderWay> host_;
  CudaStream stream_;
  std::array<CudaStream, 2> from_device_;  // two, so that a wait for one piece is not one for the next
  CudaStream to_device_;
  DevicePacker packer_;
  Nccl nccl_;  // last: invariant 1
};

class NodeNccl final : public Flat {
 public:
  NodeNccl(CommunicatorSetup setup, Form form) : Flat(std::move(setup)) {
    warn_of_known_faults(topology());
    reduction_.emplace(internal_comm(), topology(), device(), count_limit(), form, allreduce_grad_dtype());
  }

 private:
  bool do_allreduce_grad_on_device(std::span<const BufferView> gradients, double scale) override {
    reduction_->allreduce_grad(gradients, scale);
    return true;
  }
  void do_finalize() override { reduction_.reset(); }

  std::optional<NodeReduction> reduction_;
};

// hierarchical stages through pinned memory itself, as non_cuda_aware did: an MPI that takes device pointers copies
// them to the host too, in order to reduce there.
constexpr Backend kNcclBackends[] = {
    {"pure_nccl", make_pure_nccl},
    {"hierarchical", make_hierarchical_nccl},
    {"non_cuda_aware", make_hierarchical_nccl},
    {"two_dimensional", make_two_dimensional_nccl},
    {"single_node", make_single_node_nccl},
};

}  // namespace

std::span<const Backend> nccl_backends() noexcept { return kNcclBackends; }

std::shared_ptr<Communicator> make_pure_nccl(CommunicatorSetup setup) {
  return std::make_shared<PureNccl>(std::move(setup));
}

std::shared_ptr<Communicator> make_single_node_nccl(CommunicatorSetup setup) {
  require_single_node(setup.topology, "pure_nccl");
  return make_pure_nccl(std::move(setup));
}

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

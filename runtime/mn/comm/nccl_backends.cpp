// ChainerMN's backends on GPUs, and their table.
//
// pure_nccl reduces gradients by one NCCL allreduce over all ranks, and makes every other call with buffers on the GPU
// by NCCL, too. single_node is pure_nccl for ranks of one node. hierarchical, non_cuda_aware and two_dimensional sum
// gradients by NCCL within a node, and by MPI between nodes (GpuNodeSum); non_cuda_aware always uses host copies. Each
// rank of a node exchanges its slice of the sum with other nodes. If nodes have different numbers of ranks, the first
// rank of each node exchanges the whole sum.
//
// Invariants:
// 1. Streams, packed gradients and page-locked memory are destroyed after the NCCL communicator that uses them. CUDA
//    frees memory only when the whole device is idle, so it would also wait for a collective that other ranks never
//    join. Only the abort of the communicator ends such a collective.
// 2. All work of a communicator is enqueued on one stream, so packing, reduction and unpacking run in this order.
// 3. A rank waits for a stream only through Nccl::wait(), which notices errors of NCCL. join() makes a stream of the
//    program wait for the work. The program may wait for that stream without Nccl::wait(), so Nccl::watch() watches the
//    work.
//
// Cost for gradients of B bytes: pure_nccl, one NCCL allreduce of B; for the other backends see GpuNodeSum. Source: T.
// Akiba, K. Fukuda, S. Suzuki, "ChainerMN: Scalable Distributed Deep Learning Framework", 2017, arXiv:1710.11351.
#include <optional>

#include <mn/comm/device/device_collectives.hpp>
#include <mn/comm/device/device_packer.hpp>
#include <mn/comm/host_backends.hpp>
#include <mn/comm/nccl/gpu_node_sum.hpp>
#include <mn/comm/nccl/nccl.hpp>
#include <mn/comm/nccl/nccl_reductions.hpp>
#include <mn/comm/nccl/registered_memory.hpp>
#include <mn/comm/registry.hpp>
#include <mn/core/log.hpp>
#include <mn/core/nccl_versions.hpp>

namespace mn {
namespace {

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
  NcclCollectives(MPI_Comm comm, Device device, std::optional<DType> wire, std::shared_ptr<Nccl> part)
      : device_(device.index),
        stream_(device.index),
        packer_(wire),
        nccl_(part ? std::move(part) : std::make_shared<Nccl>(comm, device)),
        memory_(comm, *nccl_) {}
  ~NcclCollectives() override { *self_ = nullptr; }
  NcclCollectives(const NcclCollectives&) = delete;
  NcclCollectives& operator=(const NcclCollectives&) = delete;

  void after(void* stream) override { stream_.wait_for(stream); }
  void join(void* stream) override {
    stream_.go_before(stream);
    nccl_->watch(stream_);
  }
  void wait() override { nccl_->wait(stream_); }
  [[nodiscard]] std::unique_ptr<DeviceMark> mark() override { return std::make_unique<Mark>(*this); }
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    return memory_.allocate(bytes, stream_);
  }

  void bcast(BufferView buffer, int root) override { nccl_->bcast(buffer, root, stream_); }
  void allgather(ConstBufferView send, BufferView recv) override { nccl_->allgather(send, recv, stream_); }
  void alltoall(ConstBufferView send, BufferView recv) override {
    if (send.data == recv.data && send.count > 0) {
      std::byte* const copy = scratch_.reserve(send.bytes(), stream_);
      stream_.copy_on_device(copy, send.data, send.bytes());
      send.data = copy;
    }
    nccl_->alltoall(send, recv, stream_);
  }
  void exchange(std::span<const ConstBufferView> sent, std::span<const BufferView> received) override {
    nccl_->exchange(sent, received, stream_);
  }
  void allreduce(BufferView buffer, ReduceOp op) override { reductions_.allreduce(buffer, op, *nccl_, stream_); }
  void reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root) override {
    reductions_.reduce(send, recv, op, root, *nccl_, stream_);
  }
  void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) override {
    reductions_.reduce_scatter(send, recv, op, *nccl_, stream_);
  }
  void sum_gradients(std::span<const BufferView> gradients, double scale) override {
    packer_.apply(gradients, scale, stream_,
                  [&](BufferView whole) { nccl_->allreduce(whole, ReduceOp::kSum, stream_); });
  }
  [[nodiscard]] std::shared_ptr<Nccl> split(int color, int key, const NcclLimits& limits) {
    return nccl_->split(color, key, limits, stream_);
  }
  void send(ConstBufferView buffer, int dest) override { nccl_->send(buffer, dest, stream_); }
  void recv(BufferView buffer, int source) override { nccl_->recv(buffer, source, stream_); }

 private:
  /// A mark is a stream that waits for the work enqueued so far. A Request holds a mark, so it may outlive its
  /// NcclCollectives. New marks reuse the streams of destroyed marks.
  class Mark final : public DeviceMark {
   public:
    explicit Mark(NcclCollectives& owner) : owner_(owner.self_) {
      if (owner.free_marks_.empty()) {
        stream_ = std::make_unique<CudaStream>(owner.device_);
        owner.free_marks_.reserve(++owner.marks_);
      } else {
        stream_ = std::move(owner.free_marks_.back());
        owner.free_marks_.pop_back();
      }
      stream_->wait_for(owner.stream_.handle());
    }
    ~Mark() override {
      if (*owner_ != nullptr) (*owner_)->free_marks_.push_back(std::move(stream_));
    }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;
    void wait() override { *owner_ != nullptr ? (*owner_)->nccl_->wait(*stream_) : stream_->synchronize(); }
    [[nodiscard]] bool is_done() override { return stream_->is_done(); }

   private:
    std::shared_ptr<NcclCollectives*> owner_;
    std::unique_ptr<CudaStream> stream_;
  };

  // For marks: null once this object is destroyed.
  std::shared_ptr<NcclCollectives*> self_ = std::make_shared<NcclCollectives*>(this);
  int device_;
  CudaStream stream_;
  std::vector<std::unique_ptr<CudaStream>> free_marks_;
  std::size_t marks_ = 0;  // streams created for marks
  DevicePacker packer_;
  NcclReductions reductions_;
  DeviceScratch scratch_;
  std::shared_ptr<Nccl> nccl_;  // after the members that its calls use, so destroyed first (invariant 1)
  RegisteredMemory memory_;     // closes its windows while nccl_ lives
};

class PureNccl final : public HostCommunicator {
 public:
  PureNccl(CommunicatorSetup setup, std::shared_ptr<Nccl> part) : HostCommunicator(std::move(setup)) {
    warn_of_known_faults(topology());
    collectives_ =
        std::make_unique<NcclCollectives>(internal_comm(), device(), allreduce_grad_dtype(), std::move(part));
  }

 private:
  DeviceCollectives* do_device_collectives() noexcept override { return collectives_.get(); }
  void do_finalize() override { collectives_.reset(); }
  [[nodiscard]] std::shared_ptr<Nccl> do_split(int color, int key, const NcclLimits& limits) const override {
    return Nccl::can_split(internal_comm()) ? collectives_->split(color, key, limits) : nullptr;
  }

  std::unique_ptr<NcclCollectives> collectives_;
};

class NodeNccl final : public HostCommunicator {
 public:
  NodeNccl(CommunicatorSetup setup, GpuNodeSum::Form form, GpuNodeSum::Route route)
      : HostCommunicator(std::move(setup)) {
    warn_of_known_faults(topology());
    reduction_.emplace(internal_comm(), topology(), device(), form, route, allreduce_grad_dtype());
  }

 private:
  bool do_sum_gradients_on_device(std::span<const BufferView> gradients, double scale) override {
    reduction_->sum_gradients(gradients, scale);
    return true;
  }
  void do_finalize() override { reduction_.reset(); }

  std::optional<GpuNodeSum> reduction_;
};

std::shared_ptr<Communicator> make_node_nccl(CommunicatorSetup setup, GpuNodeSum::Route route) {
  // ChainerMN reduces to the node's first GPU. With slices, all GPUs of a node exchange data with other nodes at once,
  // and NCCL moves no more bytes. But slices need nodes with equally many ranks.
  const auto form = setup.topology.uniform() ? GpuNodeSum::Form::kSlices : GpuNodeSum::Form::kLeaders;
  return std::make_shared<NodeNccl>(std::move(setup), form, route);
}

std::shared_ptr<Communicator> make_non_cuda_aware(CommunicatorSetup setup) {
  return make_node_nccl(std::move(setup), GpuNodeSum::Route::kHost);
}

std::shared_ptr<Communicator> make_pure_nccl(CommunicatorSetup setup) {
  std::shared_ptr<Nccl> part = std::move(setup.nccl);
  return std::make_shared<PureNccl>(std::move(setup), std::move(part));
}

std::shared_ptr<Communicator> make_single_node(CommunicatorSetup setup) {
  require_single_node(setup.topology, "pure_nccl");
  return make_pure_nccl(std::move(setup));
}

std::shared_ptr<Communicator> make_hierarchical(CommunicatorSetup setup) {
  return make_node_nccl(std::move(setup), mpi_is_cuda_aware() ? GpuNodeSum::Route::kDevice : GpuNodeSum::Route::kHost);
}

std::shared_ptr<Communicator> make_two_dimensional(CommunicatorSetup setup) {
  if (!setup.topology.uniform() && setup.topology.rank == 0) {
    log_warning(
        "communicator two_dimensional: nodes with different numbers of ranks; their first ranks do all the exchange "
        "between nodes");
  }
  return make_hierarchical(std::move(setup));
}

constexpr NcclBackend kNcclBackends[] = {
    {"pure_nccl", make_pure_nccl},           {"hierarchical", make_hierarchical},
    {"non_cuda_aware", make_non_cuda_aware}, {"two_dimensional", make_two_dimensional},
    {"single_node", make_single_node},
};

}  // namespace

std::span<const NcclBackend> nccl_backends() noexcept { return kNcclBackends; }

}  // namespace mn

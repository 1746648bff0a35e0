// ChainerMN's pure_nccl: gradients in one NCCL allreduce over all ranks, whatever their nodes, and so every other call
// whose buffers lie on the GPU. single_node on GPUs is the same for ranks of one node.
#include <mn/comm/device_collectives.hpp>
#include <mn/comm/device_packer.hpp>
#include <mn/comm/flat.hpp>
#include <mn/comm/nccl.hpp>
#include <mn/comm/nccl_backends.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

class NcclCollectives final : public DeviceCollectives {
 public:
  NcclCollectives(MPI_Comm comm, Device device, std::optional<DType> wire)
      : stream_(device.index, CudaStream::Order::kFree), nccl_(comm, device), packer_(wire) {}

  void after(void* stream) override { stream_.wait_for(stream); }
  void join(void* stream) override { stream_.go_before(stream); }
  void wait() override { nccl_.wait(stream_); }

  void bcast(BufferView buffer, int root) override { nccl_.bcast(buffer, root, stream_); }
  void allgather(ConstBufferView send, BufferView recv) override { nccl_.allgather(send, recv, stream_); }
  void alltoall(ConstBufferView send, BufferView recv) override { nccl_.alltoall(send, recv, stream_); }
  void allreduce(BufferView buffer, ReduceOp op) override { nccl_.allreduce(buffer, op, 1.0, stream_); }
  void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) override {
    nccl_.reduce_scatter(send, recv, op, 1.0, stream_);
  }
  void allreduce_grad(std::span<const BufferView> gradients, double scale) override {
    packer_.apply(gradients, scale, stream_,
                  [&](BufferView whole, double factor) { nccl_.allreduce(whole, ReduceOp::kSum, factor, stream_); });
  }

 private:
  CudaStream stream_;  // first: it outlives the communicator that uses it
  Nccl nccl_;
  DevicePacker packer_;
};

class PureNccl final : public Flat {
 public:
  explicit PureNccl(CommunicatorSetup setup) : Flat(std::move(setup)) {
    collectives_.emplace(mpi_comm(), device(), allreduce_grad_dtype());
  }

  DeviceCollectives* device_collectives() noexcept override { return collectives_ ? &*collectives_ : nullptr; }

 private:
  void do_finalize() override { collectives_.reset(); }

  std::optional<NcclCollectives> collectives_;
};

}  // namespace

std::shared_ptr<Communicator> make_pure_nccl(CommunicatorSetup setup) {
  return std::make_shared<PureNccl>(std::move(setup));
}

std::shared_ptr<Communicator> make_single_node_nccl(CommunicatorSetup setup) {
  if (setup.topology.inter_size > 1) {
    throw UsageError("communicator single_node: these " + std::to_string(setup.topology.size) + " ranks are on " +
                     std::to_string(setup.topology.inter_size) +
                     " nodes; take pure_nccl, or start all ranks on one node");
  }
  return make_pure_nccl(std::move(setup));
}

}  // namespace mn

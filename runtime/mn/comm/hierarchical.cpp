// ChainerMN's hierarchical, on CPUs: within a node through shared memory, between nodes over MPI. Gradients in memory
// from allocate() are reduced without a copy.
#include <mn/comm/gradient_packer.hpp>
#include <mn/comm/node_reducer.hpp>
#include <mn/comm/registry.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

class Hierarchical final : public Communicator {
 public:
  explicit Hierarchical(CommunicatorSetup setup)
      : Communicator(std::move(setup)), node_(mpi_comm(), topology(), count_limit()) {}

 private:
  void do_allreduce(BufferView buffer, const Reduction& reduction) override {
    node_.allreduce(buffer.data, buffer.count, reduction);
  }

  void do_allreduce_grad(std::span<const BufferView> gradients, double scale) override {
    packer_.apply(gradients, [&](BufferView whole) {
      node_.allreduce(whole.data, whole.count, {whole.dtype, ReduceOp::kSum, scale});
    });
  }

  std::shared_ptr<std::byte> do_allocate(std::size_t bytes) override {
    if (auto shared = node_.allocate(bytes)) return shared;
    if (intra_rank() == 0) {
      log_warning("/dev/shm has no room for " + std::to_string(bytes) + " bytes on each of " +
                  std::to_string(intra_size()) +
                  " ranks: reductions copy through a smaller piece of it, and are slower");
    }
    return nullptr;
  }

  NodeReducer node_;
  GradientPacker packer_;
};

}  // namespace

std::shared_ptr<Communicator> make_hierarchical(CommunicatorSetup setup) {
  return std::make_shared<Hierarchical>(std::move(setup));
}

}  // namespace mn

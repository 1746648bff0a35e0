#include <mn/comm/mpi_backends.hpp>
#include <mn/comm/ordered_reducer.hpp>
#include <mn/comm/registry.hpp>

namespace mn {
namespace {

/// One reduction for each gradient: what the others are measured against.
class Naive final : public Communicator {
 public:
  explicit Naive(CommunicatorSetup setup) : Communicator(std::move(setup)) {}

 private:
  void do_allreduce_grad(std::span<const BufferView> gradients, double scale) override {
    for (const BufferView& gradient : gradients) {
      reducer().allreduce(gradient.data, gradient.count, {gradient.dtype, ReduceOp::kSum, scale});
    }
  }
};

/// Packs and unpacks gradients, which never leave the rank: measures what all but the communication costs. Every other
/// call works as usual.
class Dummy final : public Communicator {
 public:
  explicit Dummy(CommunicatorSetup setup) : Communicator(std::move(setup)) {}

 private:
  void do_allreduce_grad(std::span<const BufferView> gradients, double /*scale*/) override {
    packer_.apply(gradients, [](BufferView /*whole*/) {});
  }

  GradientPacker packer_;
};

}  // namespace

void Flat::do_allreduce_grad(std::span<const BufferView> gradients, double scale) {
  packer_.apply(gradients, [&](BufferView whole) {
    reducer().allreduce(whole.data, whole.count, {whole.dtype, ReduceOp::kSum, scale});
  });
}

std::shared_ptr<Communicator> make_naive(CommunicatorSetup setup) { return std::make_shared<Naive>(std::move(setup)); }

std::shared_ptr<Communicator> make_flat(CommunicatorSetup setup) { return std::make_shared<Flat>(std::move(setup)); }

std::shared_ptr<Communicator> make_dummy(CommunicatorSetup setup) { return std::make_shared<Dummy>(std::move(setup)); }

}  // namespace mn

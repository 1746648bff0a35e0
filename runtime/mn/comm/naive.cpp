// ChainerMN's naive: one reduction for each gradient. Needs nothing but MPI; the others are measured against it.
#include <mn/comm/ordered_reducer.hpp>
#include <mn/comm/registry.hpp>

namespace mn {
namespace {

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

}  // namespace

std::shared_ptr<Communicator> make_naive(CommunicatorSetup setup) { return std::make_shared<Naive>(std::move(setup)); }

}  // namespace mn

// ChainerMN's flat: all gradients in one reduction, packed only where they don't already lie in one buffer.
#include <mn/comm/gradient_packer.hpp>
#include <mn/comm/ordered_reducer.hpp>
#include <mn/comm/registry.hpp>

namespace mn {
namespace {

class Flat final : public Communicator {
 public:
  explicit Flat(CommunicatorSetup setup) : Communicator(std::move(setup)) {}

 private:
  void do_allreduce_grad(std::span<const BufferView> gradients, double scale) override {
    packer_.apply(gradients, [&](BufferView whole) {
      reducer().allreduce(whole.data, whole.count, {whole.dtype, ReduceOp::kSum, scale});
    });
  }

  GradientPacker packer_;
};

}  // namespace

std::shared_ptr<Communicator> make_flat(CommunicatorSetup setup) { return std::make_shared<Flat>(std::move(setup)); }

}  // namespace mn

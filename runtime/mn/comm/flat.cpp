#include <mn/comm/flat.hpp>
#include <mn/comm/ordered_reducer.hpp>
#include <mn/comm/registry.hpp>

namespace mn {

void Flat::do_allreduce_grad(std::span<const BufferView> gradients, double scale) {
  packer_.apply(gradients, [&](BufferView whole) {
    reducer().allreduce(whole.data, whole.count, {whole.dtype, ReduceOp::kSum, scale});
  });
}

std::shared_ptr<Communicator> make_flat(CommunicatorSetup setup) { return std::make_shared<Flat>(std::move(setup)); }

}  // namespace mn

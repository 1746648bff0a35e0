#include <mn/comm/node_communicator.hpp>
#include <mn/core/log.hpp>

namespace mn {

void NodeCommunicator::do_allreduce(BufferView buffer, const Reduction& reduction) {
  node_->allreduce(buffer.data, buffer.count, reduction);
}

void NodeCommunicator::do_allreduce_grad(std::span<const BufferView> gradients, double scale) {
  packer_.apply(gradients, [&](BufferView whole) {
    node_->allreduce(whole.data, whole.count, {whole.dtype, ReduceOp::kSum, scale});
  });
}

std::shared_ptr<std::byte> NodeCommunicator::do_allocate(std::size_t bytes) {
  if (auto shared = node_->allocate(bytes)) return shared;
  if (intra_rank() == 0) {
    log_warning("/dev/shm has no room for " + std::to_string(bytes) + " bytes on each of " +
                std::to_string(intra_size()) + " ranks: reductions copy through a smaller piece of it, and are slower");
  }
  return nullptr;
}

}  // namespace mn

#include <mn/comm/node_communicator.hpp>
#include <mn/comm/registry.hpp>
#include <mn/comm/shared_reducer.hpp>
#include <mn/core/error.hpp>
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

std::unique_ptr<SharedReducer> NodeCommunicator::do_share(std::span<const BufferView> buffers) {
  if (inter_size() > 1 || size() == 1 || buffers.empty()) return nullptr;
  auto* const own = static_cast<std::byte*>(buffers.front().data);
  const auto all = node_->addresses(own);
  if (all.empty()) return nullptr;
  const auto memory = do_allocate(sizeof(SharedReducer::Control));
  if (!memory) return nullptr;
  std::vector<std::ptrdiff_t> offsets;
  std::vector<SharedReducer::Control*> controls;
  for (std::byte* each : all) offsets.push_back(each - own);
  for (std::byte* each : node_->addresses(memory.get())) {
    controls.push_back(reinterpret_cast<SharedReducer::Control*>(each));
  }
  return std::make_unique<SharedReducer>(buffers, std::move(offsets), std::move(controls), rank(), node_->may_spin(),
                                         memory);
}

std::shared_ptr<std::byte> NodeCommunicator::do_allocate(std::size_t bytes) {
  try {
    return node_->allocate(bytes);
  } catch (const NoSharedMemory& error) {
    if (intra_rank() == 0) {
      log_warning(std::string(error.what()) + ": reductions copy through less of it, and are slower");
    }
    return nullptr;
  }
}

std::shared_ptr<Communicator> make_hierarchical(CommunicatorSetup setup) {
  return std::make_shared<NodeCommunicator>(std::move(setup), BetweenNodes::kLeaders);
}

std::shared_ptr<Communicator> make_two_dimensional(CommunicatorSetup setup) {
  return std::make_shared<NodeCommunicator>(std::move(setup), BetweenNodes::kSlices);
}

std::shared_ptr<Communicator> make_single_node(CommunicatorSetup setup) {
  require_single_node(setup.topology, "two_dimensional or hierarchical");
  return make_two_dimensional(std::move(setup));
}

}  // namespace mn

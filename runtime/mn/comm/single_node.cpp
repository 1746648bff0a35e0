// ChainerMN's single_node: shared memory alone, and a refusal where that is not enough.
#include <mn/comm/node_communicator.hpp>
#include <mn/comm/registry.hpp>
#include <mn/core/error.hpp>

namespace mn {

std::shared_ptr<Communicator> make_single_node(CommunicatorSetup setup) {
  if (setup.topology.inter_size > 1) {
    throw UsageError("communicator single_node: these " + std::to_string(setup.topology.size) + " ranks are on " +
                     std::to_string(setup.topology.inter_size) +
                     " nodes; take two_dimensional or hierarchical, or start all ranks on one node");
  }
  return std::make_shared<NodeCommunicator>(std::move(setup), BetweenNodes::kSlices);
}

}  // namespace mn

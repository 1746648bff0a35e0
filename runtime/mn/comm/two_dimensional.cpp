// ChainerMN's two_dimensional: reduce-scatter within each node, allreduce of each slice between the ranks that hold it,
// allgather within each node. All ranks of a node use the network at once.
#include <mn/comm/node_communicator.hpp>
#include <mn/comm/registry.hpp>

namespace mn {

std::shared_ptr<Communicator> make_two_dimensional(CommunicatorSetup setup) {
  return std::make_shared<NodeCommunicator>(std::move(setup), BetweenNodes::kSlices);
}

}  // namespace mn

// ChainerMN's hierarchical: each node's first rank reduces the node's gradients, sums them with the first ranks of the
// other nodes, and hands the result to its node. One connection a node.
#include <mn/comm/node_communicator.hpp>
#include <mn/comm/registry.hpp>

namespace mn {

std::shared_ptr<Communicator> make_hierarchical(CommunicatorSetup setup) {
  return std::make_shared<NodeCommunicator>(std::move(setup), BetweenNodes::kLeaders);
}

}  // namespace mn

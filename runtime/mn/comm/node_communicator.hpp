/// ChainerMN's hierarchical, two_dimensional and single_node on CPUs, whose ranks share their node's memory.
///
/// hierarchical: each node's first rank sums the node's gradients, then sums with the first ranks of the other nodes,
/// and hands the result to its node: one connection for each node. two_dimensional: reduce-scatter within each node,
/// allreduce of each slice between the ranks that hold it, allgather within each node: all ranks use the network at
/// once. single_node: one node, or UsageError.
#pragma once

#include <memory>

#include <mn/comm/communicator.hpp>
#include <mn/comm/gradient_packer.hpp>
#include <mn/comm/node_reducer.hpp>

namespace mn {

/// Reduces within a node through shared memory, between nodes over MPI (NodeReducer). Gradients in memory from
/// allocate() are reduced without a copy. The three backends differ in who talks to the other nodes.
class NodeCommunicator : public Communicator {
 public:
  NodeCommunicator(CommunicatorSetup setup, BetweenNodes between)
      : Communicator(std::move(setup)),
        node_(std::make_unique<NodeReducer>(mpi_comm(), topology(), between, count_limit())) {}

 private:
  void do_allreduce(BufferView buffer, const Reduction& reduction) override;
  void do_allreduce_grad(std::span<const BufferView> gradients, double scale) override;
  std::shared_ptr<std::byte> do_allocate(std::size_t bytes) override;
  std::unique_ptr<SharedReducer> do_share(std::span<const BufferView> buffers) override;
  void do_finalize() override { node_.reset(); }

  std::unique_ptr<NodeReducer> node_;
  GradientPacker packer_;
};

}  // namespace mn

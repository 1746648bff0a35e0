#include <memory>

#include <mn/comm/hierarchical_reducer.hpp>
#include <mn/comm/message_reducer.hpp>
#include <mn/comm/mpi_backends.hpp>
#include <mn/comm/node_comms.hpp>
#include <mn/comm/registry.hpp>
#include <mn/comm/shared_reducer.hpp>
#include <mn/core/error.hpp>

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

/// ChainerMN's hierarchical, two_dimensional and single_node on CPUs, whose ranks share their node's memory.
/// hierarchical: each node's first rank sums the node's gradients, then sums with the first ranks of the other nodes,
/// and hands the result to its node: one connection for each node. two_dimensional: reduce-scatter within each node,
/// allreduce of each slice between the ranks that hold it, allgather within each node: all ranks use the network at
/// once. single_node: one node, or UsageError.
///
/// Reduces within a node through shared memory, between nodes over MPI (HierarchicalReducer). Gradients in memory from
/// allocate() are reduced without a copy. The three backends differ in who talks to the other nodes.
class NodeCommunicator final : public Communicator {
 public:
  NodeCommunicator(CommunicatorSetup setup, BetweenNodes between) : Communicator(std::move(setup)) {
    NodeComms comms = take_node_comms(internal_comm());  // where this is the one of a thread
    if (!comms.node) {
      comms = split_node_comms(internal_comm(), topology(), between);
      if (mpi_takes_threads()) keep_node_comms(internal_comm(), duplicate(comms));  // for a thread
    }
    node_ =
        std::make_unique<HierarchicalReducer>(internal_comm(), topology(), between, count_limit(), std::move(comms));
  }
  ~NodeCommunicator() override { static_cast<void>(take_node_comms(internal_comm())); }
  NodeCommunicator(const NodeCommunicator&) = delete;
  NodeCommunicator& operator=(const NodeCommunicator&) = delete;

 private:
  void do_allreduce(BufferView buffer, const Reduction& reduction) override;
  void do_allreduce_grad(std::span<const BufferView> gradients, double scale) override;
  std::shared_ptr<std::byte> do_allocate(std::size_t bytes) override;
  std::unique_ptr<SharedReducer> do_share(std::span<const BufferView> buffers) override;
  void do_finalize() override {
    node_.reset();
    static_cast<void>(take_node_comms(internal_comm()));
  }

  std::unique_ptr<HierarchicalReducer> node_;
  GradientPacker packer_;
};

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

std::shared_ptr<std::byte> NodeCommunicator::do_allocate(std::size_t bytes) { return node_->allocate(bytes); }

}  // namespace

void Flat::do_allreduce_grad(std::span<const BufferView> gradients, double scale) {
  packer_.apply(gradients, [&](BufferView whole) {
    reducer().allreduce(whole.data, whole.count, {whole.dtype, ReduceOp::kSum, scale});
  });
}

std::shared_ptr<Communicator> make_naive(CommunicatorSetup setup) { return std::make_shared<Naive>(std::move(setup)); }

std::shared_ptr<Communicator> make_flat(CommunicatorSetup setup) { return std::make_shared<Flat>(std::move(setup)); }

std::shared_ptr<Communicator> make_dummy(CommunicatorSetup setup) { return std::make_shared<Dummy>(std::move(setup)); }

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

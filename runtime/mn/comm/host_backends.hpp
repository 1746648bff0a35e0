/// Communicators that reduce on CPUs: ChainerMN's names for them are rows of one table.
///
/// Each reduces every element in a fixed order (MessageReducer, NodeReducer), and needs MPI alone. The rows differ in who
/// exchanges gradients with whom, and in whether gradients are packed into one buffer first.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include <mn/comm/communicator.hpp>
#include <mn/comm/device/gradient_packer.hpp>
#include <mn/comm/node/node_comms.hpp>

namespace mn {

class NodeReducer;

/// Which ranks exchange data when buffers are reduced.
enum class HostExchange {
  kNone,     ///< gradients never leave the rank: measures what all but the communication costs; other calls as kRanks
  kRanks,    ///< all ranks, by messages, in rank order
  kLeaders,  ///< ranks of a node through shared memory, then the first rank of each node, by messages
  kSlices,   ///< ranks of a node through shared memory, then each rank its slice with its peers on other nodes
};

/// A row of the table.
struct HostBackend {
  std::string_view name;
  HostExchange exchange = HostExchange::kRanks;
  bool packs = true;      ///< gradients of a dtype are one reduction; false: one reduction for each gradient
  bool one_node = false;  ///< UsageError unless all ranks are on one node
};

/// naive, flat, hierarchical, two_dimensional, single_node, dummy.
[[nodiscard]] std::span<const HostBackend> host_backends() noexcept;

/// Collective: a communicator of that row.
[[nodiscard]] std::shared_ptr<Communicator> make_host_backend(CommunicatorSetup setup, const HostBackend& backend);

/// Throws UsageError that names the communicators to take `instead` unless all ranks are on one node.
void require_single_node(const Topology& topology, std::string_view instead);

/// A communicator of a row. Backends for GPUs derive from it: flat is how they reduce gradients on the host.
class HostCommunicator : public Communicator {
 public:
  /// flat's.
  explicit HostCommunicator(CommunicatorSetup setup);
  /// `comms`: those of setup.node_comms; empty ones are made here.
  HostCommunicator(CommunicatorSetup setup, const HostBackend& backend, NodeComms comms);
  ~HostCommunicator() override;
  HostCommunicator(const HostCommunicator&) = delete;
  HostCommunicator& operator=(const HostCommunicator&) = delete;

 private:
  void do_allreduce(BufferView buffer, const Reduction& reduction) final;
  void do_allreduce_grad(std::span<const BufferView> gradients, double scale) final;
  std::shared_ptr<std::byte> do_allocate(std::size_t bytes) final;
  std::unique_ptr<SharedReducer> do_share(std::span<const BufferView> buffers) final;
  void do_prepare_background(CommunicatorSetup& background) final;
  void do_finalize() override;

  HostExchange exchange_;
  bool packs_;
  GradientPacker packer_;
  std::unique_ptr<NodeReducer> node_;      // null unless ranks of a node share memory
  std::shared_ptr<NodeComms> background_;  // for the communicator of the thread, until that is made
};

}  // namespace mn

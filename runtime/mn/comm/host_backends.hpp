/// Communicators that reduce on CPUs, each element in a fixed order. Each of ChainerMN's backend names is a row of one
/// table.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include <mn/comm/communicator.hpp>
#include <mn/comm/device/gradient_packer.hpp>

namespace mn {

class NodeReducer;

/// Which ranks exchange data in a reduction.
enum class HostExchange {
  kNone,     ///< gradients stay on their rank, to measure all other costs; other calls work as with kRanks
  kRanks,    ///< all ranks, by messages, in rank order
  kLeaders,  ///< ranks of a node through shared memory, then the first rank of each node by messages
  kSlices,   ///< ranks of a node through shared memory, then each rank one slice with ranks of other nodes
};

struct HostBackend {
  std::string_view name;
  HostExchange exchange = HostExchange::kRanks;
  bool packs = true;      ///< all gradients of a dtype are reduced at once; false: each by itself
  bool one_node = false;  ///< UsageError unless all ranks are on one node
};

/// Rows: naive, flat, hierarchical, two_dimensional, single_node, dummy.
[[nodiscard]] std::span<const HostBackend> host_backends() noexcept;

[[nodiscard]] std::shared_ptr<Communicator> make_host_backend(CommunicatorSetup setup, const HostBackend& backend);

/// Throws UsageError that recommends the communicators `instead`, unless all ranks are on one node.
void require_single_node(const Topology& topology, std::string_view instead);

/// The communicator of one row of host_backends(). Backends for GPUs derive from this class; they reduce gradients that
/// lie on the host as the backend flat does.
class HostCommunicator : public Communicator {
 public:
  /// Makes a communicator with the row "flat".
  explicit HostCommunicator(CommunicatorSetup setup);
  /// Uses `comms`, from setup.node_comms, or makes them if they are empty.
  HostCommunicator(CommunicatorSetup setup, const HostBackend& backend, NodeComms comms);
  ~HostCommunicator() override;
  HostCommunicator(const HostCommunicator&) = delete;
  HostCommunicator& operator=(const HostCommunicator&) = delete;

 private:
  void do_allreduce(BufferView buffer, const Reduction& reduction) final;
  void do_sum_gradients(std::span<const BufferView> gradients, double scale) final;
  std::shared_ptr<std::byte> do_allocate(std::size_t bytes) final;
  std::unique_ptr<SharedReducer> do_share(std::span<const BufferView> buffers) final;
  void do_prepare_background(CommunicatorSetup& background) final;
  void do_finalize() override;

  HostExchange exchange_;
  bool packs_;
  GradientPacker packer_;
  std::unique_ptr<NodeReducer> node_;  // null unless ranks of a node share memory
  NodeComms background_;               // for the communicator of the background thread
};

}  // namespace mn

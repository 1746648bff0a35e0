/// Communicators that reduce on CPUs, each element in a fixed order. The table host_backends() has a row for each of
/// ChainerMN's backend names.
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
  kNone,     ///< gradients are not reduced, to measure all other costs of a step; all other calls work as with kRanks
  kRanks,    ///< all ranks, by messages, in rank order
  kLeaders,  ///< the ranks of a node through shared memory, then the first rank of each node by messages
  kSlices,   ///< as kLeaders, but each rank of a node exchanges a slice of the data by messages
};

struct HostBackend {
  std::string_view name;
  HostExchange exchange = HostExchange::kRanks;
  bool packs = true;      ///< true: reduces all gradients of a dtype at once; false: each gradient by itself
  bool one_node = false;  ///< true: throws UsageError unless all ranks are on one node
};

/// The backends for CPUs: naive, flat, hierarchical, two_dimensional, single_node and dummy.
[[nodiscard]] std::span<const HostBackend> host_backends() noexcept;

[[nodiscard]] std::shared_ptr<Communicator> make_host_backend(CommunicatorSetup setup, const HostBackend& backend);

/// Throws a UsageError that recommends the communicators named in `instead`, unless all ranks are on one node.
void require_single_node(const Topology& topology, std::string_view instead);

/// The communicator of a backend in host_backends(). Backends for GPUs derive from this class, and thus reduce
/// gradients on the host like the backend flat.
class HostCommunicator : public Communicator {
 public:
  explicit HostCommunicator(CommunicatorSetup setup);
  /// `comms` has the MPI communicators of the rank's node; if empty, the constructor makes them.
  HostCommunicator(CommunicatorSetup setup, const HostBackend& backend, NodeComms comms);
  ~HostCommunicator() override;

 private:
  void do_allreduce(BufferView buffer, const Reduction& reduction) final;
  bool do_allgather(ConstBufferView send, BufferView recv) final;
  bool do_reduce_scatter(ConstBufferView send, BufferView recv, const Reduction& reduction) final;
  [[nodiscard]] bool exchanges_in_memory(const ConstBufferView& part) const;
  void do_sum_gradients(std::span<const BufferView> gradients, double scale) final;
  std::shared_ptr<std::byte> do_allocate(std::size_t bytes) final;
  std::unique_ptr<SharedReducer> do_share(std::span<const BufferView> buffers) final;
  void do_prepare_background(CommunicatorSetup& background) final;
  void do_finalize() override;

  HostExchange exchange_;
  bool packs_;
  GradientPacker packer_;
  std::unique_ptr<NodeReducer> node_;  // null unless the exchange is kLeaders or kSlices
  NodeComms background_;               // for the background thread's communicator
};

}  // namespace mn

/// Reductions through shared memory within a node, and over MPI between nodes, for the backends hierarchical,
/// two_dimensional and single_node. A buffer is cut into slices, one for each rank of a node. Each rank reduces its
/// slice of all buffers of the node, then reduces this result with the ranks of other nodes that have the same slice,
/// and finally writes it to all buffers of the node. With BetweenNodes::kLeaders the first rank's slice is the whole
/// buffer.
///
/// Invariants:
/// 1. Elements are reduced in rank order within a node, then in the order of nodes. 16-bit floats are rounded once
///    after each of the two sums. Between the two sums, a node's sums of float16 are divided by a power of two that is
///    at least the number of ranks of any node. Therefore a sum of finite values overflows within a node only if the
///    final result overflows, too. Products may overflow within a node.
/// 2. Large buffers are reduced in pieces, and a slice begins at the same offset in every piece (SliceExchange). A fast
///    rank therefore never writes where a slow rank still reads the previous piece.
/// 3. Slices begin on multiples of 64 elements, so in aligned memory two ranks never write to the same cache line.
/// 4. Each rank has two blocks of shared memory (slots) for small buffers, and uses the two in turn, because slow ranks
///    may still read the slot of the previous call.
/// 5. Buffers are reduced in place only if the buffers of all ranks lie in one allocation of allocate(), because then
///    every rank has mapped all of them. A rank may release an allocation at any time, and never looks it up after the
///    release.
/// 6. Each node chooses for itself how its ranks move a piece: in place, through more or less scratch memory, or by
///    messages. The pieces and slices that nodes exchange, and the bits of a result, do not depend on this choice.
/// 7. A rank reads other ranks' elements only after a barrier, and after it has compared the CallSignature at the head
///    of their slots with its own. All ranks of the node compare the same calls, so they throw together.
///
/// Memory: 17 KiB of /dev/shm for each rank, and scratch memory for private buffers, at most a piece. If /dev/shm has
/// little room, scratch memory is smaller. If there is room for less than 64 KiB, messages replace scratch memory.
///
/// Cost on one node, per rank. Buffers of at most 8 KiB: 1 barrier, and every rank reads all buffers. Buffers from
/// allocate(): 2 barriers and no copy (more barriers with several NUMA domains: numa_domains.hpp). Private buffers: 1
/// barrier, then 2 barriers and 2 copies for each MiB. If there are several nodes, small buffers take a second barrier,
/// and each slice takes one MessageReducer::allreduce. A comparison of calls on one node: 1 barrier. Parts
/// (node_parts.hpp): 1 barrier more than there. Source: reduce-scatter and allgather by direct access, as in S.
/// Li, T. Hoefler, M. Snir, "NUMA-aware shared-memory collective communication for MPI", HPDC 2013.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <mn/comm/calls/call_match.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/comm/mpi/topology.hpp>
#include <mn/comm/node/node_barrier.hpp>
#include <mn/comm/node/shared_memory.hpp>
#include <mn/comm/node/slice_exchange.hpp>

namespace mn {

struct NodeParts;
struct NodeRanks;

class NodeReducer {
 public:
  /// Collective over `comm`, whose topology is `topology`. `comms` has the communicators of the node's ranks and of the
  /// ranks that exchange slices.
  NodeReducer(MPI_Comm comm, const Topology& topology, BetweenNodes between, NodeComms comms);

  /// Collective: reduces `data` over all ranks. Reduces buffers from allocate() in place, and other buffers in pieces
  /// through scratch memory.
  void allreduce(void* data, std::size_t count, const Reduction& reduction);
  /// Collective over the node, which has shared memory: throws CallMismatch on all ranks if their calls differ.
  void compare(const CallSignature& call);
  [[nodiscard]] bool has_memory() const noexcept { return segments_.has_value(); }
  /// Collective, on one node: exchange parts (node_parts.hpp). The ranks have compared their calls. Without shared
  /// memory both return false on all ranks, and do nothing.
  [[nodiscard]] bool allgather(const NodeParts& parts);
  [[nodiscard]] bool reduce_scatter(const NodeParts& parts);
  /// Collective over the node: allocates shared memory, which each rank releases by itself. Null if impossible.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes);
  /// Collective over the node: if all ranks' `data` lie in one block of allocate(), returns their addresses in this
  /// process, by rank, valid until this rank releases the block. Otherwise returns an empty vector on every rank.
  [[nodiscard]] std::vector<std::byte*> addresses(const std::byte* data);
  [[nodiscard]] bool may_spin() const noexcept { return may_spin_; }

 private:
  /// Where a rank's buffer lies in shared memory. Each rank publishes its Location before a large reduction.
  struct Location {
    std::int64_t allocation;  ///< kPrivate if the buffer lies in no allocation
    std::uint64_t offset;
  };
  static constexpr std::int64_t kPrivate = -1;
  /// The beginning of a rank's segment of shared memory. Two slots for small buffers follow.
  struct Control {
    SharedCounter arrivals;
    alignas(64) Location location;
  };
  class Allocations;
  struct Allocation;

  [[nodiscard]] Control& control(int rank) const;
  /// Slot `turn` (0 or 1) of a rank: the CallSignature of its call, and then the elements of a small buffer.
  [[nodiscard]] std::byte* slot(int rank, std::size_t turn) const;
  [[nodiscard]] std::byte* small_slot(int rank, std::size_t turn) const {
    return slot(rank, turn) + sizeof(CallSignature);
  }
  /// Writes the rank's next call to the rank's slot, for all ranks to read.
  void announce(const CallSignature& call);
  /// Invariant 7: throws CallMismatch if the calls in the slots differ. Call it after announce() and a barrier.
  void require_same_calls() const;
  /// The reduction within a node. If there are several nodes, between() applies the scale.
  [[nodiscard]] Reduction within(const Reduction& reduction) const;
  [[nodiscard]] Reduction between(const Reduction& reduction) const;
  [[nodiscard]] std::size_t piece_elements(std::size_t count, const Reduction& reduction) const;

  void make_segments();
  void report_shortage(const NoSharedMemory& error) const;
  /// Collective over the node: makes scratch memory of `bytes` or less for each rank. False if there is no room.
  [[nodiscard]] bool reserve_scratch(std::size_t bytes);
  void reduce_small(std::byte* data, std::size_t count, const Reduction& reduction);
  void reduce_small_by_messages(std::byte* data, std::size_t count, const Reduction& reduction);
  [[nodiscard]] NodeRanks ranks();
  template <class Shared, class Copied>
  [[nodiscard]] bool exchange(const NodeParts& parts, std::size_t scratch_bytes, Shared shared, Copied copied);
  void reduce_copied(std::byte* data, std::size_t count, const Reduction& reduction);
  void reduce_shared(std::vector<std::byte*> buffers, std::size_t count, const Reduction& reduction);
  /// Like addresses(), but without the final barrier: the caller must pass a barrier before the next call.
  [[nodiscard]] std::vector<std::byte*> shared_buffers(const std::byte* data);

  Mpi node_;
  int rank_;  ///< within the node
  int ranks_;
  bool many_nodes_;
  double divisor_;  ///< the number by which a node's sums of float16 are divided
  bool may_spin_ = has_cpu_for_each_rank(node_.get());
  SliceExchange exchange_;
  MessageReducer messages_{node_.get()};  ///< for a node without shared memory
  std::vector<std::size_t> domains_;      ///< first rank of each NUMA domain of the node, then the number of ranks
  std::optional<SharedMemory> segments_;  ///< a Control and slots for each rank; empty without shared memory
  std::unique_ptr<NodeBarrier> barrier_;  ///< null without shared memory
  std::optional<SharedMemory> scratch_;
  bool shm_is_short_ = false;  ///< /dev/shm had too little room for scratch memory
  std::shared_ptr<Allocations> allocations_;
  std::array<std::vector<const void*>, 2> small_inputs_;  ///< [turn] all ranks' slots for small buffers
  std::size_t small_turn_ = 0;                            ///< slot in use, 0 or 1
  CallSignature call_;                                    ///< head of the slot in use
};

}  // namespace mn

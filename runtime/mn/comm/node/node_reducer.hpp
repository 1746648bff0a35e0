/// Reductions through shared memory within a node, and over MPI between nodes, for the backends hierarchical,
/// two_dimensional and single_node. A buffer is cut into slices, one for each rank of a node. Each rank reduces its
/// slice of all the node's buffers, then reduces the result with the ranks that have the same slice on other nodes,
/// then writes the final slice to all buffers of the node. With BetweenNodes::kLeaders the first rank's slice is the
/// whole buffer.
///
/// Invariants:
/// 1. Elements are reduced in rank order within a node, then in the order of nodes. 16-bit floats are rounded once
///    after each of the two sums. Between the two sums, a node's sums of float16 are divided by a power of two that is
///    at least the number of ranks of any node. So a sum of finite values overflows within a node only if the result
///    overflows, too. Products may overflow at a node.
/// 2. Large buffers are reduced in pieces, and a slice begins at the same offset in every piece (SliceExchange). A fast
///    rank therefore never writes where a slow rank still reads the previous piece.
/// 3. Slices begin on multiples of 64 elements: in aligned memory two ranks never write to one cache line.
/// 4. Each rank has two blocks of shared memory (slots) for small buffers, and uses the two in turn, because slow ranks
///    may still read the slot of the previous call.
/// 5. Buffers are reduced in place only if the buffers of all ranks lie in one allocation of allocate(), which every
///    rank then has mapped. A rank may release its memory at any time; it never looks up an allocation that it has
///    released.
/// 6. The ranks of a node choose alone how they move a piece: in place, through more or less scratch memory, or by
///    messages. Pieces and slices between nodes, and the bits of a result, do not depend on the choice.
/// 7. A rank reads other ranks' elements only after a barrier, and after comparing the CallShape at the head of their
///    slots with its own. All ranks of the node compare the same shapes, so they throw together.
///
/// Memory: 17 KiB of /dev/shm for each rank, and scratch memory for private buffers, at most a piece. If /dev/shm is
/// short, scratch memory is smaller; below 64 KiB, messages replace it.
///
/// Cost on one node, per rank. Buffers of at most 8 KiB: 1 barrier, and every rank reads all buffers. Buffers from
/// allocate(): 2 barriers and no copy (more barriers with several NUMA domains: numa_domains.hpp). Private buffers: 1
/// barrier, then 2 barriers and 2 copies for each MiB. With several nodes, small buffers take a second barrier, and
/// each slice takes one MessageReducer::allreduce. Source: reduce-scatter and allgather by direct access, as in S. Li,
/// T. Hoefler, M. Snir, "NUMA-aware shared-memory collective communication for MPI", HPDC 2013.
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

struct NodeRanks;

class NodeReducer {
 public:
  /// Collective over `comm`, whose topology is `topology`. `comms` are communicators of parts of `comm`.
  NodeReducer(MPI_Comm comm, const Topology& topology, BetweenNodes between, std::size_t count_limit, NodeComms comms);

  /// Collective. Buffers from allocate() are reduced in place, other buffers in pieces through scratch memory.
  void allreduce(void* data, std::size_t count, const Reduction& reduction);
  /// Collective over the node: allocates shared memory, which each rank may release at any time, alone. Returns null if
  /// the node cannot share memory.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes);
  /// Collective over the node: if the `data` of all ranks lie in one allocation of allocate(), returns their addresses
  /// in the calling process, by rank; otherwise returns an empty vector on every rank. The addresses are valid until
  /// the calling rank releases the memory.
  [[nodiscard]] std::vector<std::byte*> addresses(const std::byte* data);
  /// Whether each rank of the node has a CPU of its own.
  [[nodiscard]] bool may_spin() const noexcept { return may_spin_; }

 private:
  /// Where a rank's buffer lies. Each rank publishes it before a large reduction.
  struct Location {
    std::int64_t allocation;  ///< number of the allocation; kPrivate if the buffer lies in no allocation
    std::uint64_t offset;
  };
  static constexpr std::int64_t kPrivate = -1;
  /// Head of a rank's segment of shared memory. The rank's two slots follow it.
  struct Control {
    SharedCounter arrivals;
    alignas(64) Location location;
  };
  class Allocations;
  struct Allocation;

  [[nodiscard]] Control& control(int rank) const;
  /// Slot number `turn` of a rank. It begins with the CallShape of the rank's call; the elements of a small buffer
  /// follow.
  [[nodiscard]] std::byte* slot(int rank, std::size_t turn) const;
  [[nodiscard]] std::byte* small_slot(int rank, std::size_t turn) const { return slot(rank, turn) + sizeof(CallShape); }
  /// Writes the shape of the rank's next call to its slot.
  void announce(std::size_t count, const Reduction& reduction);
  /// Compares the shapes of all ranks; call after the barrier that follows announce(). Throws CallMismatch (7).
  void require_same_calls() const;
  /// The reduction within the node. If an exchange between nodes follows, the exchange applies the scale.
  [[nodiscard]] Reduction within(const Reduction& reduction) const;
  /// The reduction between nodes, which follows the reduction within().
  [[nodiscard]] Reduction between(const Reduction& reduction) const;
  [[nodiscard]] std::size_t piece_elements(std::size_t count, const Reduction& reduction) const;

  void make_segments();
  void report_shortage(const NoSharedMemory& error) const;
  /// Collective over the node: makes shared scratch memory of `bytes` for each rank, or of less if /dev/shm is short.
  /// Returns false if the node has no scratch memory.
  [[nodiscard]] bool reserve_scratch(std::size_t bytes);
  void reduce_small(std::byte* data, std::size_t count, const Reduction& reduction);
  void reduce_small_by_messages(std::byte* data, std::size_t count, const Reduction& reduction);
  [[nodiscard]] NodeRanks ranks();
  void reduce_copied(std::byte* data, std::size_t count, const Reduction& reduction);
  void reduce_shared(std::vector<std::byte*> buffers, std::size_t count, const Reduction& reduction);
  /// Like addresses(), but without the barrier at the end: the caller must pass a barrier before its next call.
  [[nodiscard]] std::vector<std::byte*> shared_buffers(const std::byte* data);

  Mpi node_;
  int rank_;  ///< number of the rank within the node
  int ranks_;
  bool many_nodes_;
  double divisor_;  ///< divides a node's sums of float16
  bool may_spin_;
  std::size_t count_limit_;
  SliceExchange exchange_;
  MessageReducer messages_;               ///< for a node without shared memory
  std::vector<std::size_t> domains_;      ///< NUMA domains of the node, by their first ranks
  std::optional<SharedMemory> segments_;  ///< a Control and slots for each rank; empty without shared memory
  std::unique_ptr<NodeBarrier> barrier_;  ///< null without shared memory
  std::optional<SharedMemory> scratch_;
  bool shm_is_short_ = false;  ///< /dev/shm had too little room for scratch memory
  std::shared_ptr<Allocations> allocations_;
  std::array<std::vector<const void*>, 2> small_inputs_;  ///< [turn] all ranks' slots for small messages
  std::size_t small_turn_ = 0;                            ///< the slot in use, 0 or 1
  CallShape call_;                                        ///< head of the slot in use
};

}  // namespace mn

/// Reductions between the ranks of a node through memory that they share, and between nodes over MPI.
///
/// All ranks of a communicator call allreduce() at once (HostCommunicator does, for hierarchical, two_dimensional and single_node). Each rank
/// reduces its slice of all the node's buffers, reduces it further with the ranks that have the same slice on the other
/// nodes, and writes it to all the node's buffers. Leaders have a slice that is everything.
///
/// Invariants:
/// 1. Elements are reduced in rank order within a node, then in the order of the nodes. 16-bit floats are rounded once
///    after each of the two. Between the two, sums of float16 are divided by a power of two that no node's ranks
///    exceed, so finite values overflow only where their result does. Products may overflow at a node.
/// 2. A slice begins at the same offset in every piece of a buffer (SliceExchange): a rank that is ahead never writes
///    where another still reads the piece before.
/// 3. Slices begin on multiples of 64 elements: in aligned memory two ranks never write to one cache line.
/// 4. Small messages alternate between two slots of a segment: a rank that is ahead writes the next one while others
///    still read this one.
/// 5. Buffers are reduced where they lie only if every rank's lies in the same allocation, which each of them then has
///    mapped. A rank may release its memory at any time; nobody looks up an allocation that it does not hold itself.
/// 6. How the ranks of a node move a piece, through how much staging memory or by messages, is their own affair: the
///    pieces and slices that nodes exchange do not depend on it, and neither do the bits of a result.
/// 7. A rank uses what others gave, by its own count, only after a barrier behind which it has found their count,
///    dtype, operation and scale to be its own: each stands before its rank's slot for small messages. All ranks of the
///    node see the same, and throw together.
///
/// Memory: 17 KiB of /dev/shm for each rank, and staging memory from the first reduction that needs it: as much as the
/// largest needed, at most a piece. Where /dev/shm is short, less; where it lacks even that, messages replace it.
///
/// Cost on one node, per rank: up to 8 KiB, 1 barrier, and every rank reads all buffers; from allocate(), 2 barriers
/// and no copy (more barriers where the node has several NUMA domains: numa_domains.hpp); else, 1 barrier, then for
/// each MiB 2 barriers and 2 copies. With several nodes a small message takes a second barrier, and each slice one
/// MessageReducer::allreduce.
/// Source: reduce-scatter and allgather by direct access, as in S. Li, T. Hoefler, M. Snir, "NUMA-aware shared-memory
/// collective communication for MPI", HPDC 2013.
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
#include <mn/comm/node/node_comms.hpp>
#include <mn/comm/node/shared_memory.hpp>
#include <mn/comm/node/slice_exchange.hpp>

namespace mn {

struct NodeRanks;

class NodeReducer {
 public:
  /// Collective over `comm`, whose topology it is, and whose parts `comms` are.
  NodeReducer(MPI_Comm comm, const Topology& topology, BetweenNodes between, std::size_t count_limit, NodeComms comms);

  /// Collective. Buffers from allocate() are reduced where they lie, others in pieces through staging memory.
  void allreduce(void* data, std::size_t count, const Reduction& reduction);
  /// Collective over the node; released locally, in any order, also after the reducer. Null on every rank of the node
  /// alike if there is none.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes);
  /// Collective over the node: where this process sees the ranks' `data`, which lies in the same memory from allocate()
  /// on each; empty on every rank if it does not. Valid until this rank releases that memory.
  [[nodiscard]] std::vector<std::byte*> addresses(const std::byte* data);
  /// Whether each rank of the node has a CPU.
  [[nodiscard]] bool may_spin() const noexcept { return may_spin_; }

 private:
  /// Where a rank's buffer lies, published before each large reduction.
  struct Location {
    std::int64_t allocation;  ///< its number; kPrivate outside all
    std::uint64_t offset;
  };
  static constexpr std::int64_t kPrivate = -1;
  /// The head of a rank's segment; two slots for small messages follow.
  struct Control {
    SharedCounter arrivals;
    alignas(64) Location location;
  };
  class Allocations;
  struct Allocation;

  [[nodiscard]] Control& control(int rank) const;
  /// Where a slot begins with its rank's call.
  [[nodiscard]] std::byte* slot(int rank, std::size_t turn) const;
  [[nodiscard]] std::byte* small_slot(int rank, std::size_t turn) const { return slot(rank, turn) + sizeof(CallShape); }
  /// Says what this rank is about to reduce.
  void announce(std::size_t count, const Reduction& reduction);
  /// Behind a barrier that follows. Throws CallMismatch: (7).
  void require_same_calls() const;
  /// What to do within the node: where an exchange with others follows, the scale is left to that.
  [[nodiscard]] Reduction within(const Reduction& reduction) const;
  /// What to do between nodes with what within() gave.
  [[nodiscard]] Reduction between(const Reduction& reduction) const;
  [[nodiscard]] std::size_t piece_elements(std::size_t count, const Reduction& reduction) const;

  void make_segments();
  /// One line, once in a process.
  void report_shortage(const NoSharedMemory& error) const;
  /// Collective over the node: staging memory of `bytes` for each rank, or of less; false if there is none.
  [[nodiscard]] bool reserve_staging(std::size_t bytes);
  void reduce_small(std::byte* data, std::size_t count, const Reduction& reduction);
  void reduce_small_by_messages(std::byte* data, std::size_t count, const Reduction& reduction);
  /// For the pieces of a reduction (node_pieces.hpp).
  [[nodiscard]] NodeRanks ranks();
  void reduce_staged(std::byte* data, std::size_t count, const Reduction& reduction);
  void reduce_shared(std::vector<std::byte*> buffers, std::size_t count, const Reduction& reduction);
  /// addresses() without its last barrier: there must be one before the next call.
  [[nodiscard]] std::vector<std::byte*> shared_buffers(const std::byte* data);

  Mpi node_;
  int rank_;  ///< within the node
  int ranks_;
  bool many_nodes_;
  double divisor_;  ///< by which a node's sum of float16 is divided
  bool may_spin_;
  std::size_t count_limit_;
  SliceExchange exchange_;
  MessageReducer messages_;               ///< for the node, where it lacks shared memory
  std::vector<std::size_t> domains_;      ///< NUMA domains of the node, by their first ranks
  std::optional<SharedMemory> segments_;  ///< a Control and slots for each rank; empty where messages replace them
  std::unique_ptr<NodeBarrier> barrier_;  ///< as segments_
  std::optional<SharedMemory> staging_;
  bool staging_is_short_ = false;  ///< /dev/shm had no more
  std::shared_ptr<Allocations> allocations_;
  std::array<std::vector<const void*>, 2> small_inputs_;  ///< all ranks' slots for small messages, for each turn
  std::size_t small_turn_ = 0;                            ///< the slot in use, 0 or 1
  CallShape call_;                                        ///< that it begins with
};

}  // namespace mn

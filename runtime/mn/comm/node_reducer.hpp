/// Reductions between the ranks of a node through memory that they share, and between nodes over MPI.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <mn/comm/mpi.hpp>
#include <mn/comm/node_barrier.hpp>
#include <mn/comm/ordered_reducer.hpp>
#include <mn/comm/shared_window.hpp>
#include <mn/comm/topology.hpp>

namespace mn {

/// Who sends a node's sums to the other nodes.
enum class BetweenNodes {
  kLeaders,  ///< its first rank, all of them
  kSlices,   ///< each rank its slice, all at once; where nodes differ in ranks, as many as the smallest has
};

/// Each rank reduces its slice of all the node's buffers, reduces it further with the ranks that have the same slice on
/// the other nodes, and writes it to all the node's buffers. Leaders have a slice that is everything. Elements are
/// reduced in rank order within a node, then in order of the nodes; 16-bit floats are rounded after each of the two.
class NodeReducer {
 public:
  /// Collective over `comm`, whose topology it is.
  NodeReducer(MPI_Comm comm, const Topology& topology, BetweenNodes between, std::size_t count_limit);

  /// Collective. Buffers from allocate() are reduced where they lie, others in pieces through staging memory.
  void allreduce(void* data, std::size_t count, const Reduction& reduction);
  /// Collective. Memory in a shared window; null on every rank of the node if there is no room for it.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes);
  /// Collective over the node: where this process sees the ranks' `data`, which lies in memory from allocate(); empty
  /// on every rank if it does not on one.
  [[nodiscard]] std::vector<std::byte*> addresses(const std::byte* data);

 private:
  /// Where a rank's buffer lies, told to the others before each large reduction.
  struct Place {
    std::int64_t window;  ///< number of the allocation; kPrivate outside all
    std::uint64_t offset;
  };
  static constexpr std::int64_t kPrivate = -1;
  /// The head of a rank's segment of the window; two places for small messages and the staging memory follow.
  struct Control {
    SharedCounter arrivals;
    alignas(64) Place place;
  };
  /// Allocations that are alive, by number; shared with the owners of their memory.
  struct Allocations;
  struct Range {
    std::size_t first;
    std::size_t length;
  };

  [[nodiscard]] Control& control(int rank) const;
  [[nodiscard]] std::byte* small_place(int rank, std::size_t turn) const;
  [[nodiscard]] std::byte* staging(int rank) const;
  /// The elements of a piece of `count` that a rank of the node reduces. Slices begin at the same places in every piece
  /// of up to `most` elements: a rank that is ahead must not write where others still read the piece before.
  [[nodiscard]] Range slice_of(int rank, std::size_t most, std::size_t count) const;

  void reduce_small(std::byte* data, std::size_t count, const Reduction& reduction);
  void reduce_staged(std::byte* data, std::size_t count, const Reduction& reduction);
  void reduce_shared(const std::vector<std::byte*>& buffers, std::size_t count, const Reduction& reduction);
  /// Reduces within the node, then between nodes, in the first output; the others get copies.
  void reduce_slice(const std::vector<void*>& outputs, const std::vector<const void*>& inputs, std::size_t count,
                    const Reduction& reduction);
  /// addresses() without its last barrier: there must be one before the next call.
  [[nodiscard]] std::vector<std::byte*> shared_buffers(const std::byte* data);

  Mpi node_;
  Mpi peers_;  ///< the ranks of the other nodes that have this rank's slice
  int rank_;   ///< within the node
  int ranks_;
  int slices_;
  bool many_nodes_;
  std::size_t piece_bytes_;
  std::unique_ptr<SharedWindow> window_;
  std::unique_ptr<NodeBarrier> barrier_;
  std::unique_ptr<OrderedReducer> between_nodes_;
  std::shared_ptr<Allocations> allocations_;
  std::array<std::vector<const void*>, 2> small_inputs_;  ///< all ranks' places for small messages, for each turn
  std::size_t small_turn_ = 0;                            ///< the place in use, 0 or 1
};

}  // namespace mn

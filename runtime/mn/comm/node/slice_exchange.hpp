/// The schedule by which the ranks of several nodes reduce a large buffer together: what each node's ranks do among
/// themselves, and when the ranks that hold the same slice on different nodes exchange it over MPI.
///
/// NodeReducer calls it, on all ranks at once; how a node's ranks exchange data is up to it. Simulations of
/// clusters run the same schedule with messages instead of shared memory.
///
/// Invariants:
/// 1. A slice begins at the same offset in every piece of a buffer, on a multiple of 64 elements.
/// 2. All nodes cut a buffer into the same pieces and slices.
/// 3. Within a piece: Node::reduce, then the exchange between nodes, then Node::spread. Each of the three takes the
///    pieces in their order, and all ranks of a node call it in the same order: reduce of a piece, then spread of the
///    piece two before.
///
/// Cost for B bytes on m nodes: the larger of what a node does with B and what the network does with it, and that of
/// one piece of the other. There are few pieces where the network's messages are slow to start, many where its bytes
/// take long (best_pieces). Each is the exchange of a slice between m ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <mn/comm/messages/message_reducer.hpp>
#include <mn/comm/messages/network_costs.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/comm/mpi/topology.hpp>

namespace mn {

/// Who sends a node's sums to the other nodes.
enum class BetweenNodes {
  kLeaders,  ///< its first rank, all of them
  kSlices,   ///< each rank its slice, all at once; where nodes differ in ranks, as many as the smallest has
};

/// Elements of a buffer.
struct Range {
  std::size_t first = 0;
  std::size_t length = 0;
};

class SliceExchange {
 public:
  /// Slices begin on multiples of so many elements: on cache lines, whatever the type.
  static constexpr std::size_t kLineElements = 64;

  /// What the ranks of a node do together with a piece of a buffer. Collective over the node.
  class Node {
   public:
    virtual ~Node() = default;
    /// Puts the reduction over the node's ranks of the elements `own` into this rank's buffer.
    virtual void reduce(Range piece, Range own) = 0;
    /// Gives each rank's own elements, as its buffer now has them, to all.
    virtual void spread(Range piece, Range own) = 0;
  };

  /// Collective over `comm`, whose topology it is. With one node every rank has a slice, and nothing is exchanged.
  SliceExchange(MPI_Comm comm, const Topology& topology, BetweenNodes between, std::size_t count_limit)
      : SliceExchange(comm, topology, between, count_limit, split_peers(comm, topology, between)) {}
  /// The same with what split_peers() has given.
  SliceExchange(MPI_Comm comm, const Topology& topology, BetweenNodes between, std::size_t count_limit, Mpi peers);
  /// Collective: the ranks of the other nodes that have this rank's slice; none without a slice, or with one node.
  [[nodiscard]] static Mpi split_peers(MPI_Comm comm, const Topology& topology, BetweenNodes between);

  /// Elements of a piece of `count` > 0 between nodes; all of them where there is one node.
  [[nodiscard]] std::size_t piece_elements(std::size_t count, std::size_t element_bytes) const;
  /// Ranks of a node that have a slice; the first ones.
  [[nodiscard]] int slices() const noexcept { return slices_; }
  /// The elements of a piece of `count`, at most `most`, that a rank of the node reduces.
  [[nodiscard]] Range slice_of(int rank, std::size_t most, std::size_t count) const;

  /// Collective, in place, in pieces of at most `most` elements, the same on all nodes: between several nodes no more
  /// than piece_elements().
  void allreduce(std::byte* data, std::size_t count, std::size_t most, const Reduction& reduction, Node& node);
  /// Collective over the ranks that have this rank's slice; the last stage of a reduction between nodes.
  void between_nodes(void* data, std::size_t count, const Reduction& reduction);

 private:
  void allreduce_in_turn(std::byte* data, std::size_t count, std::size_t most, const Reduction& reduction, Node& node);
  void allreduce_pipelined(std::byte* data, std::size_t count, std::size_t most, const Reduction& reduction,
                           Node& node);
  /// The elements of piece `k` of `count`, and this rank's of them.
  [[nodiscard]] std::pair<Range, Range> piece_at(std::size_t k, std::size_t most, std::size_t count) const;

  Mpi peers_;
  int rank_;  ///< within the node
  int slices_;
  int nodes_;
  std::size_t count_limit_;
  NetworkCosts costs_;
  std::unique_ptr<MessageReducer> reducer_;
};

}  // namespace mn

/// The schedule by which the ranks of several nodes reduce a large buffer. A buffer is cut into pieces, and a piece
/// into slices, one for each exchanging rank of a node. The ranks of a node reduce a piece and later spread its result.
/// In between, the ranks with the same slice on different nodes reduce it over MPI. NodeReducer runs the schedule
/// through shared memory; simulations of clusters run it with messages instead.
///
/// Invariants:
/// 1. A slice begins at the same offset in every piece of a buffer, on a multiple of 64 elements.
/// 2. All nodes cut a buffer into equal pieces and slices.
/// 3. A piece passes Node::reduce, then the exchange between nodes, then Node::spread. Each of these three steps takes
///    the pieces in ascending order. If there are several pieces and several nodes, all ranks of a node call
///    Node::reduce for piece k, and then Node::spread for piece k - 2.
///
/// Cost for B bytes on m nodes: the work within a node and the exchange between nodes overlap. The whole takes the time
/// of the slower of the two for B bytes, plus the time of the faster for a piece. For each piece, groups of m ranks
/// exchange a slice each.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <mn/comm/messages/message_reducer.hpp>
#include <mn/comm/messages/network_costs.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/comm/mpi/topology.hpp>

namespace mn {

/// Which ranks of a node exchange the node's sums with other nodes.
enum class BetweenNodes {
  kLeaders,  ///< the first rank of each node exchanges all sums of the node
  kSlices,   ///< on each node, as many ranks as the smallest node has exchange a slice each, all at once
};

struct Range {
  std::size_t first = 0;
  std::size_t length = 0;
};

class SliceExchange {
 public:
  /// Slices begin on multiples of this number of elements, which fill whole cache lines for any dtype.
  static constexpr std::size_t kLineElements = 64;

  /// The work that the ranks of one node do on a piece of a buffer. Both functions are collective over the node.
  class Node {
   public:
    virtual ~Node() = default;
    /// Reduces the range `own` of the piece over the node's ranks. Writes the result to this rank's buffer.
    virtual void reduce(Range piece, Range own) = 0;
    /// Copies this rank's range `own` to the buffers of all ranks of the node. Each rank has a different range.
    virtual void spread(Range piece, Range own) = 0;
  };

  /// Collective over `comm`, whose topology is `topology`. On a single node every rank has a slice, whatever `between`
  /// is.
  SliceExchange(MPI_Comm comm, const Topology& topology, BetweenNodes between)
      : SliceExchange(comm, topology, between, split_peers(comm, topology, between)) {}
  /// Like the constructor above, but takes the communicator that split_peers() has made.
  SliceExchange(MPI_Comm comm, const Topology& topology, BetweenNodes between, Mpi peers);
  /// Collective: makes the communicator of the ranks with the same slice on different nodes. Empty on a rank without a
  /// slice, and if there is only one node.
  [[nodiscard]] static Mpi split_peers(MPI_Comm comm, const Topology& topology, BetweenNodes between);

  /// Elements of each piece into which a buffer of `count` > 0 elements is cut. On one node: the buffer.
  [[nodiscard]] std::size_t piece_elements(std::size_t count, std::size_t element_bytes) const;
  /// How many ranks of a node have a slice: the node's first ranks.
  [[nodiscard]] int slices() const noexcept { return slices_; }
  /// The slice of rank `rank` of the node in a piece of `count` elements. The largest piece has `most` elements.
  [[nodiscard]] Range slice_of(int rank, std::size_t most, std::size_t count) const;

  /// Collective: reduces the buffer `data` in place, in pieces of `most` elements or less. If there are several nodes,
  /// `most` must be equal on all of them, and not greater than piece_elements().
  void allreduce(std::byte* data, std::size_t count, std::size_t most, const Reduction& reduction, Node& node);
  /// Collective over the ranks with the same slice on different nodes: reduces `data` between these ranks only.
  void between_nodes(void* data, std::size_t count, const Reduction& reduction);

 private:
  void allreduce_in_turn(std::byte* data, std::size_t count, std::size_t most, const Reduction& reduction, Node& node);
  void allreduce_pipelined(std::byte* data, std::size_t count, std::size_t most, const Reduction& reduction,
                           Node& node);
  /// Returns piece `k` of a buffer of `count` elements, and this rank's slice of the piece.
  [[nodiscard]] std::pair<Range, Range> piece_at(std::size_t k, std::size_t most, std::size_t count) const;

  Mpi peers_;
  int rank_;  ///< within the node
  int slices_;
  int nodes_;
  NetworkCosts costs_;
  std::unique_ptr<MessageReducer> reducer_;
};

}  // namespace mn

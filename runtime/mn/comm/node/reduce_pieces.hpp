/// Three ways in which the ranks of a node reduce a piece of their buffers; NodeReducer chooses the way, and the
/// invariants of node_reducer.hpp hold here, too. Cost for each piece. In place: nothing except the barrier that ends
/// the whole reduction. Through shared scratch memory: two copies, and 2 to 4 barriers for each round. By messages: one
/// MessageReducer::allreduce and, if there are several nodes, one MPI_Bcast for each slice.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include <mn/comm/messages/message_reducer.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/comm/mpi/reduce.hpp>
#include <mn/comm/node/node_barrier.hpp>
#include <mn/comm/node/shared_memory.hpp>
#include <mn/comm/node/slice_exchange.hpp>

namespace mn {

/// What the ranks of a node share when they reduce pieces. `barrier` and `scratch` must outlive the pieces.
struct NodeRanks {
  MPI_Comm comm;
  int rank;  ///< within the node
  int ranks;
  bool many_nodes;  ///< results are exchanged with other nodes before spread()
  const SliceExchange& exchange;
  MessageReducer& messages;
  NodeBarrier* barrier;         ///< null without shared memory
  const SharedMemory* scratch;  ///< null unless pieces go through scratch memory

  void bcast(std::byte* data, std::size_t count, DType dtype, int root) const {
    const MpiCount n(count, dtype);
    call_mpi(MPI_Bcast, MPI_Ibcast, "spreading a result within a node", count, data, n.count(), n.type(), root, comm);
  }
};

/// Reduces pieces in place, in buffers that lie in shared memory.
class SharedPieces final : public SliceExchange::Node {
 public:
  SharedPieces(const NodeRanks& node, std::vector<std::byte*> buffers, const Reduction& within)
      : node_(node), buffers_(std::move(buffers)), within_(within), element_bytes_(size_of(within.dtype)) {}

  void reduce(Range /*piece*/, Range own) override {
    std::vector<void*> outputs{at(node_.rank, own)};
    std::vector<const void*> inputs;
    for (int r = 0; r < node_.ranks; ++r) {
      inputs.push_back(at(r, own));
      if (!node_.many_nodes && r != node_.rank) outputs.push_back(at(r, own));
    }
    reduce_in_order(outputs, inputs, own.length, within_);
  }
  void spread(Range /*piece*/, Range own) override {
    for (int r = 0; node_.many_nodes && r < node_.ranks; ++r) {
      if (r != node_.rank) std::memcpy(at(r, own), at(node_.rank, own), own.length * element_bytes_);
    }
  }

 private:
  [[nodiscard]] std::byte* at(int rank, Range range) const {
    return buffers_[static_cast<std::size_t>(rank)] + range.first * element_bytes_;
  }

  NodeRanks node_;
  std::vector<std::byte*> buffers_;
  Reduction within_;
  std::size_t element_bytes_;
};

/// Reduces pieces of private buffers in rounds. In each round, scratch memory holds a chunk of every slice.
class CopiedPieces final : public SliceExchange::Node {
 public:
  CopiedPieces(const NodeRanks& node, std::byte* data, std::size_t most, const Reduction& within)
      : node_(node), data_(data), most_(most), within_(within) {
    const std::size_t room = node.scratch->bytes() / element_bytes_ / static_cast<std::size_t>(node.exchange.slices());
    chunk_ = std::min(room / SliceExchange::kLineElements * SliceExchange::kLineElements,
                      node.exchange.slice_of(0, most, most).length);
    is_whole_ = chunk_ >= node.exchange.slice_of(0, most, most).length;
  }

  void reduce(Range piece, Range /*own*/) override {
    in_rounds(piece, [&](std::size_t round) {
      if (parts_are_read_) wait_for_all();
      for_others([&](int slice) { copy(scratch_at(node_.rank, slice), chunk(piece, slice, round)); });
      wait_for_all();
      parts_are_read_ = true;
      if (node_.rank >= node_.exchange.slices()) return;
      const Range range = chunk(piece, node_.rank, round);
      std::vector<const void*> inputs;
      for (int r = 0; r < node_.ranks; ++r) {
        inputs.push_back(r == node_.rank ? at(range) : scratch_at(r, node_.rank));
      }
      std::vector<void*> outputs{at(range)};
      if (is_spread_at_once()) outputs.push_back(scratch_at(node_.rank, node_.rank));
      reduce_in_order(outputs, inputs, range.length, within_);
    });
  }
  void spread(Range piece, Range /*own*/) override {
    in_rounds(piece, [&](std::size_t round) {
      if (!is_spread_at_once()) {
        if (results_are_read_) wait_for_all();
        if (node_.rank < node_.exchange.slices()) {
          copy(scratch_at(node_.rank, node_.rank), chunk(piece, node_.rank, round));
        }
      }
      wait_for_all();
      results_are_read_ = true;
      for_others([&](int slice) {
        const Range range = chunk(piece, slice, round);
        std::memcpy(at(range), scratch_at(slice, slice), range.length * element_bytes_);
      });
    });
  }

 private:
  /// True if reduce() writes final results to scratch memory: on a single node, if a round moves a whole slice.
  [[nodiscard]] bool is_spread_at_once() const { return is_whole_ && !node_.many_nodes; }
  [[nodiscard]] std::byte* at(Range range) const { return data_ + range.first * element_bytes_; }
  /// The address of the chunk of slice `slice` in the scratch memory of `rank`. Its offset depends on the slice alone,
  /// so a fast rank never writes where a slow rank still reads (invariant 2). It is a multiple of 64 elements
  /// (invariant 3).
  [[nodiscard]] std::byte* scratch_at(int rank, int slice) const {
    return node_.scratch->segment(rank) + static_cast<std::size_t>(slice) * chunk_ * element_bytes_;
  }
  [[nodiscard]] Range chunk(Range piece, int slice, std::size_t round) const {
    const Range whole = node_.exchange.slice_of(slice, most_, piece.length);
    const std::size_t first = std::min(round * chunk_, whole.length);
    return {piece.first + whole.first + first, std::min(chunk_, whole.length - first)};
  }
  template <class Round>
  void in_rounds(Range piece, const Round& act) const {
    const std::size_t longest = node_.exchange.slice_of(0, most_, piece.length).length;
    for (std::size_t round = 0; round * chunk_ < longest; ++round) act(round);
  }
  /// Afterwards no rank still reads the old content of scratch memory.
  void wait_for_all() {
    node_.barrier->arrive_and_wait();
    parts_are_read_ = results_are_read_ = false;
  }
  void for_others(const std::function<void(int slice)>& act) const {
    for (int r = 0; r < node_.exchange.slices(); ++r) {
      if (r != node_.rank) act(r);
    }
  }
  void copy(std::byte* to, Range from) const { std::memcpy(to, at(from), from.length * element_bytes_); }

  NodeRanks node_;
  std::byte* data_;
  std::size_t most_;
  Reduction within_;
  std::size_t element_bytes_ = size_of(within_.dtype);
  std::size_t chunk_;  // elements of each slice that scratch memory holds
  bool is_whole_;      // one round moves a whole slice
  // The flags are true if some rank may still read parts of buffers, or results, in scratch memory, and are equal on
  // all ranks. Parts and results lie apart, so a rank that writes parts need not wait for readers of results, nor the
  // reverse.
  bool parts_are_read_ = false;
  bool results_are_read_ = false;
};

/// Reduces pieces of private buffers by messages, for nodes without shared memory.
class MessagePieces final : public SliceExchange::Node {
 public:
  MessagePieces(const NodeRanks& node, std::byte* data, std::size_t most, const Reduction& within)
      : node_(node), data_(data), most_(most), within_(within) {}

  void reduce(Range piece, Range /*own*/) override {
    node_.messages.allreduce(data_ + piece.first * size_of(within_.dtype), piece.length, within_);
  }
  void spread(Range piece, Range /*own*/) override {
    for (int r = 0; node_.many_nodes && r < node_.exchange.slices(); ++r) {
      const Range slice = node_.exchange.slice_of(r, most_, piece.length);
      node_.bcast(data_ + (piece.first + slice.first) * size_of(within_.dtype), slice.length, within_.dtype, r);
    }
  }

 private:
  NodeRanks node_;
  std::byte* data_;
  std::size_t most_;
  Reduction within_;
};

}  // namespace mn

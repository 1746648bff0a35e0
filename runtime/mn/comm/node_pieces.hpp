/// How the ranks of a node reduce a piece of their buffers together: where it lies, through staging memory, or by
/// messages.
///
/// NodeReducer alone includes this; its invariants hold here. Cost for each piece: where it lies, nothing but the
/// barrier that ends its reduction; staged, a copy in and one out, 2 barriers, and 3 to 4 for each further round; by
/// messages, an OrderedReducer::allreduce, and with several nodes one MPI_Bcast for each slice.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include <mn/comm/node_reducer.hpp>

namespace mn {

/// Buffers that lie where all ranks of the node see them: reduced in place.
class NodeReducer::SharedPieces final : public SliceExchange::Node {
 public:
  SharedPieces(const NodeReducer& owner, std::vector<std::byte*> buffers, const Reduction& reduction)
      : owner_(owner),
        buffers_(std::move(buffers)),
        within_(owner.within(reduction)),
        element_bytes_(size_of(reduction.dtype)) {}

  void reduce(Range /*piece*/, Range own) override {
    std::vector<void*> outputs{at(owner_.rank_, own)};
    std::vector<const void*> inputs;
    for (int r = 0; r < owner_.ranks_; ++r) {
      inputs.push_back(at(r, own));
      if (!owner_.many_nodes_ && r != owner_.rank_) outputs.push_back(at(r, own));
    }
    reduce_in_order(outputs, inputs, own.length, within_);
  }
  void spread(Range /*piece*/, Range own) override {
    for (int r = 0; owner_.many_nodes_ && r < owner_.ranks_; ++r) {
      if (r != owner_.rank_) std::memcpy(at(r, own), at(owner_.rank_, own), own.length * element_bytes_);
    }
  }

 private:
  [[nodiscard]] std::byte* at(int rank, Range range) const {
    return buffers_[static_cast<std::size_t>(rank)] + range.first * element_bytes_;
  }

  const NodeReducer& owner_;
  std::vector<std::byte*> buffers_;
  Reduction within_;
  std::size_t element_bytes_;
};

/// A private buffer, whose pieces go through staging memory: as much of every slice at a time as fits.
class NodeReducer::StagedPieces final : public SliceExchange::Node {
 public:
  /// Pieces have at most `most` elements.
  StagedPieces(const NodeReducer& owner, std::byte* data, std::size_t most, const Reduction& reduction)
      : owner_(owner),
        data_(data),
        most_(most),
        within_(owner.within(reduction)),
        element_bytes_(size_of(reduction.dtype)),
        slices_(static_cast<std::size_t>(owner.exchange_.slices())) {
    const std::size_t room = owner.staging_->bytes() / element_bytes_ / slices_;
    chunk_ = std::min(room / SliceExchange::kLineElements * SliceExchange::kLineElements,
                      owner.exchange_.slice_of(0, most, most).length);
    is_whole_ = chunk_ >= owner.exchange_.slice_of(0, most, most).length;
  }

  void reduce(Range piece, Range /*own*/) override {
    in_rounds(piece, [&](std::size_t round) {
      for_others([&](int slice) { copy(staged(owner_.rank_, slice), chunk(piece, slice, round)); });
      owner_.barrier_->arrive_and_wait();
      if (owner_.rank_ >= owner_.exchange_.slices()) return;
      const Range range = chunk(piece, owner_.rank_, round);
      std::vector<const void*> inputs;
      for (int r = 0; r < owner_.ranks_; ++r) {
        inputs.push_back(r == owner_.rank_ ? at(range) : staged(r, owner_.rank_));
      }
      std::vector<void*> outputs{at(range)};
      if (is_spread_at_once()) outputs.push_back(staged(owner_.rank_, owner_.rank_));
      reduce_in_order(outputs, inputs, range.length, within_);
    });
  }
  void spread(Range piece, Range /*own*/) override {
    in_rounds(piece, [&](std::size_t round) {
      if (!is_spread_at_once() && owner_.rank_ < owner_.exchange_.slices()) {
        copy(staged(owner_.rank_, owner_.rank_), chunk(piece, owner_.rank_, round));
      }
      owner_.barrier_->arrive_and_wait();
      for_others([&](int slice) {
        const Range range = chunk(piece, slice, round);
        std::memcpy(at(range), staged(slice, slice), range.length * element_bytes_);
      });
    });
  }

 private:
  /// Whether reduce() already leaves the results where the others find them.
  [[nodiscard]] bool is_spread_at_once() const { return is_whole_ && !owner_.many_nodes_; }
  [[nodiscard]] std::byte* at(Range range) const { return data_ + range.first * element_bytes_; }
  /// Where a rank's staging memory holds a slice's chunk: invariant 2, and aligned by invariant 3.
  [[nodiscard]] std::byte* staged(int rank, int slice) const {
    return owner_.staging_->segment(rank) + static_cast<std::size_t>(slice) * chunk_ * element_bytes_;
  }
  /// The elements of a slice that a round moves.
  [[nodiscard]] Range chunk(Range piece, int slice, std::size_t round) const {
    const Range whole = owner_.exchange_.slice_of(slice, most_, piece.length);
    const std::size_t first = std::min(round * chunk_, whole.length);
    return {piece.first + whole.first + first, std::min(chunk_, whole.length - first)};
  }
  template <class Round>
  void in_rounds(Range piece, const Round& act) const {
    const std::size_t longest = owner_.exchange_.slice_of(0, most_, piece.length).length;
    for (std::size_t round = 0; round * chunk_ < longest; ++round) {
      if (round > 0) owner_.barrier_->arrive_and_wait();  // until nobody reads the round before
      act(round);
    }
  }
  void for_others(const std::function<void(int slice)>& act) const {
    for (int r = 0; r < owner_.exchange_.slices(); ++r) {
      if (r != owner_.rank_) act(r);
    }
  }
  void copy(std::byte* to, Range from) const { std::memcpy(to, at(from), from.length * element_bytes_); }

  const NodeReducer& owner_;
  std::byte* data_;
  std::size_t most_;
  Reduction within_;
  std::size_t element_bytes_;
  std::size_t slices_;
  std::size_t chunk_;  // elements of a slice in staging memory
  bool is_whole_;      // one round is enough
};

/// The same by messages.
class NodeReducer::MessagePieces final : public SliceExchange::Node {
 public:
  MessagePieces(NodeReducer& owner, std::byte* data, std::size_t most, const Reduction& reduction)
      : owner_(owner), data_(data), most_(most), within_(owner.within(reduction)) {}

  void reduce(Range piece, Range /*own*/) override {
    owner_.messages_.allreduce(data_ + piece.first * size_of(within_.dtype), piece.length, within_);
  }
  void spread(Range piece, Range /*own*/) override {
    for (int r = 0; owner_.many_nodes_ && r < owner_.exchange_.slices(); ++r) {
      const Range slice = owner_.exchange_.slice_of(r, most_, piece.length);
      owner_.bcast(data_ + (piece.first + slice.first) * size_of(within_.dtype), slice.length, within_.dtype, r);
    }
  }

 private:
  NodeReducer& owner_;
  std::byte* data_;
  std::size_t most_;
  Reduction within_;
};

}  // namespace mn

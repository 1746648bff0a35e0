#include <mn/comm/node/shared_reducer.hpp>

#include <algorithm>
#include <cassert>
#include <utility>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/mpi/reduce.hpp>

namespace mn {
namespace {

/// Small enough for pieces of a few ranks' buffers to fit a core's own cache, and for all ranks to get some pieces.
constexpr std::size_t kPieceBytes = 64 * 1024;

std::vector<SharedCounter*> arrivals_of(const std::vector<SharedReducer::Control*>& controls) {
  std::vector<SharedCounter*> arrivals;
  for (auto* control : controls) arrivals.push_back(&control->arrivals);
  return arrivals;
}

}  // namespace

SharedReducer::SharedReducer(std::span<const BufferView> buffers, std::vector<std::ptrdiff_t> offsets,
                             std::vector<Control*> controls, int rank, bool may_spin, std::shared_ptr<void> owner)
    : buffers_(static_cast<std::uint32_t>(buffers.size())),
      offsets_(std::move(offsets)),
      controls_(std::move(controls)),
      rank_(static_cast<std::size_t>(rank)),
      may_spin_(may_spin),
      owner_(std::move(owner)),
      barrier_(arrivals_of(controls_), rank, may_spin) {
  is_reduced_.assign(buffers.size(), true);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    elements_ += buffers[i].count;
    const std::size_t most = kPieceBytes / size_of(buffers[i].dtype);
    for (std::size_t first = 0; first < buffers[i].count; first += most) {
      pieces_.push_back({i, buffers[i].slice(first, std::min(most, buffers[i].count - first))});
    }
  }
}

void SharedReducer::publish(std::size_t count) {
  assert(count <= buffers_);  // invariant 2 (set() asserts that `published` never falls)
  controls_[rank_]->published.set(first_buffer_ + static_cast<std::uint32_t>(count));
}

// Invariant 1: the addition is atomic, so exactly one rank gets each piece.
std::uint32_t SharedReducer::take() { return controls_.front()->taken.fetch_add(1) - first_piece_; }

void SharedReducer::reduce(double scale) {
  if (!calls_) return reduce_pieces(scale);
  const ConstBufferView what(nullptr, elements_, pieces_.empty() ? DType::kFloat32 : pieces_.front().own.dtype);
  const auto call = calls_->shared_reduction(what);
  reduce_pieces(scale);
}

void SharedReducer::reduce_pieces(double scale) {
  assert(is_reduced_.size() == buffers_);
  publish(buffers_);
  for (std::uint32_t next = take(); next < pieces_.size(); next = take()) {
    if (is_reduced_[pieces_[next].buffer]) reduce_piece(pieces_[next], scale);
  }
  barrier_.arrive_and_wait();  // invariant 3: all buffers hold their result
  first_buffer_ += buffers_;
  // Invariant 4: each rank has taken one index beyond the last piece.
  first_piece_ += static_cast<std::uint32_t>(pieces_.size() + controls_.size());
}

void SharedReducer::reduce_piece(const Piece& piece, double scale) {
  for (Control* control : controls_) {  // invariant 2
    control->published.wait_for(first_buffer_ + static_cast<std::uint32_t>(piece.buffer) + 1, may_spin_);
  }
  auto* const own = static_cast<std::byte*>(piece.own.data);
  for (std::size_t r = 0; r < offsets_.size(); ++r) inputs_[r] = outputs_[r] = own + offsets_[r];
  reduce_in_order(outputs_, inputs_, piece.own.count, {piece.own.dtype, ReduceOp::kSum, scale});
}

}  // namespace mn

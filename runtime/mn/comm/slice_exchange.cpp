#include <algorithm>

#include <mn/comm/slice_exchange.hpp>

namespace mn {

SliceExchange::SliceExchange(MPI_Comm comm, const Topology& topology, BetweenNodes between, std::size_t count_limit,
                             std::size_t piece_bytes)
    : rank_(topology.intra_rank), slices_(topology.intra_size), piece_bytes_(piece_bytes) {
  for (int node = 0; node < topology.inter_size; ++node) {
    slices_ = std::min(slices_, static_cast<int>(topology.ranks_of(node).size()));
  }
  if (topology.inter_size == 1) return;
  if (between == BetweenNodes::kLeaders) slices_ = 1;
  peers_ = Mpi::split(comm, rank_ < slices_ ? rank_ : -1, topology.rank);
  if (peers_) reducer_ = std::make_unique<OrderedReducer>(peers_.get(), count_limit);
}

Range SliceExchange::slice_of(int rank, std::size_t most, std::size_t count) const {
  if (rank >= slices_) return {count, 0};
  const auto slices = static_cast<std::size_t>(slices_);
  const std::size_t length = ((most + slices - 1) / slices + kLineElements - 1) / kLineElements * kLineElements;
  const std::size_t first = std::min(static_cast<std::size_t>(rank) * length, count);
  return {first, std::min(length, count - first)};
}

void SliceExchange::allreduce(std::byte* data, std::size_t count, std::size_t most, const Reduction& reduction,
                              Node& node) {
  const std::size_t element_bytes = size_of(reduction.dtype);
  for (std::size_t done = 0; done < count; done += most) {
    const Range piece{done, std::min(most, count - done)};
    Range own = slice_of(rank_, most, piece.length);
    own.first += done;
    node.reduce(piece, own);
    between_nodes(data + own.first * element_bytes, own.length, reduction);
    node.spread(piece, own);
  }
}

void SliceExchange::between_nodes(void* data, std::size_t count, const Reduction& reduction) {
  if (reducer_ && count > 0) reducer_->allreduce(data, count, reduction);
}

}  // namespace mn

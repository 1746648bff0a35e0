#include <mn/comm/node/slice_exchange.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>

#include <mn/comm/mpi/progress.hpp>

namespace mn {

namespace {

int number_of_slices(const Topology& topology, BetweenNodes between) {
  if (topology.inter_size > 1 && between == BetweenNodes::kLeaders) return 1;
  int slices = topology.intra_size;
  for (int node = 0; node < topology.inter_size; ++node) {
    slices = std::min(slices, static_cast<int>(topology.ranks_of(node).size()));
  }
  return slices;
}

}  // namespace

Mpi SliceExchange::split_peers(MPI_Comm comm, const Topology& topology, BetweenNodes between) {
  if (topology.inter_size == 1) return {};
  const int slice = topology.intra_rank;
  return Mpi::split(comm, slice < number_of_slices(topology, between) ? slice : -1, topology.rank);
}

SliceExchange::SliceExchange(MPI_Comm comm, const Topology& topology, BetweenNodes between, Mpi peers)
    : peers_(std::move(peers)), rank_(topology.intra_rank), nodes_(topology.inter_size) {
  slices_ = number_of_slices(topology, between);
  if (nodes_ == 1) return;
  costs_ = NetworkCosts::find(comm, peers_.get());
  if (peers_) reducer_ = std::make_unique<MessageReducer>(peers_.get(), costs_);
}

Range SliceExchange::slice_of(int rank, std::size_t most, std::size_t count) const {
  if (rank >= slices_) return {count, 0};
  const auto slices = static_cast<std::size_t>(slices_);
  // Invariant 1: slices begin at equal offsets in all pieces.
  const std::size_t length = ((most + slices - 1) / slices + kLineElements - 1) / kLineElements * kLineElements;
  assert(length % kLineElements == 0);  // invariant 1: a multiple of 64 elements
  const std::size_t first = std::min(static_cast<std::size_t>(rank) * length, count);
  return {first, std::min(length, count - first)};
}

std::size_t SliceExchange::piece_elements(std::size_t count, std::size_t element_bytes) const {
  if (nodes_ == 1) return count;
  // Invariant 2: every node computes the number of pieces from the same values.
  const auto slices = static_cast<std::size_t>(slices_);
  const std::size_t pieces = best_pieces(costs_, nodes_, count * element_bytes / slices);
  const std::size_t lines = slices * kLineElements;
  const std::size_t wanted = ((count + pieces - 1) / pieces + lines - 1) / lines * lines;
  const std::size_t most_slice = MessageReducer::most_elements(nodes_, element_bytes);
  const std::size_t most = std::max(most_slice / kLineElements, std::size_t{1}) * lines;
  return std::min({count, wanted, most});
}

std::pair<Range, Range> SliceExchange::piece_at(std::size_t k, std::size_t most, std::size_t count) const {
  assert(k * most < count);
  const Range piece{k * most, std::min(most, count - k * most)};
  Range own = slice_of(rank_, most, piece.length);
  own.first += piece.first;
  return {piece, own};
}

void SliceExchange::allreduce(std::byte* data, std::size_t count, std::size_t most, const Reduction& reduction,
                              Node& node) {
  // For a single piece, between_nodes() may choose a quicker exchange than the pipeline's.
  if (nodes_ == 1 || count <= most) return allreduce_in_turn(data, count, most, reduction, node);
  allreduce_pipelined(data, count, most, reduction, node);
}

void SliceExchange::allreduce_in_turn(std::byte* data, std::size_t count, std::size_t most, const Reduction& reduction,
                                      Node& node) {
  for (std::size_t k = 0; k * most < count; ++k) {
    const auto [piece, own] = piece_at(k, most, count);
    node.reduce(piece, own);
    between_nodes(data + own.first * size_of(reduction.dtype), own.length, reduction);
    node.spread(piece, own);
  }
}

void SliceExchange::allreduce_pipelined(std::byte* data, std::size_t count, std::size_t most,
                                        const Reduction& reduction, Node& node) {
  // Invariant 3: reduces piece k while the slices of piece k - 1 travel, and then spreads the result of piece k - 2.
  const PendingRequest messages;  // while it lives, waits within the node let MPI work
  const std::size_t most_own = slice_of(0, most, most).length;
  std::array<MessageReducer::Piece, 3> under_way;
  std::optional<NeighborCheck> check;
  if (reducer_) check.emplace(peers_.get(), CallSignature("allreduce", {count, reduction}));
  const auto exchanged = [&](std::size_t k) { return reducer_ && piece_at(k, most, count).second.length > 0; };
  in_pipeline((count + most - 1) / most,
              [&](std::size_t k) {
                const auto [piece, own] = piece_at(k, most, count);
                node.reduce(piece, own);
                if (k == 0 && check) check->finish();  // its messages have travelled while the node reduced
                if (!exchanged(k)) return;
                std::byte* const first = data + own.first * size_of(reduction.dtype);
                under_way[k % 3] = reducer_->begin(first, own.length, k, most_own, reduction.dtype);
              },
              [&](std::size_t k) {
                if (exchanged(k)) reducer_->reduce(under_way[k % 3], reduction);
              },
              [&](std::size_t k) {
                if (exchanged(k)) MessageReducer::finish(under_way[k % 3]);
                const auto [piece, own] = piece_at(k, most, count);
                node.spread(piece, own);
              });
}

void SliceExchange::between_nodes(void* data, std::size_t count, const Reduction& reduction) {
  if (reducer_ && count > 0) reducer_->allreduce(data, count, reduction);
}

}  // namespace mn

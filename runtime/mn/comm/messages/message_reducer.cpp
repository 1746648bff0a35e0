#include <mn/comm/messages/message_reducer.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <new>
#include <utility>

#include <mn/comm/mpi/mpi.hpp>

namespace mn {
namespace {

/// Every rank gathers all buffers if these have kGatherBytes together or, with very many ranks, kGatherBytesOfRank
/// each. A CPU reduces so few bytes in little time.
constexpr std::size_t kGatherBytes = 16 * 1024;
constexpr std::size_t kGatherBytesOfRank = 512;
constexpr std::align_val_t kAlignment{64};

template <class Byte>
std::span<Byte> bytes_of(Byte* data, const MessageReducer::Slice& slice, std::size_t element_bytes) {
  return {data + slice.offset * element_bytes, slice.length * element_bytes};
}

}  // namespace

void MessageReducer::Free::operator()(std::byte* memory) const noexcept { operator delete(memory, kAlignment); }

MessageReducer::MessageReducer(MPI_Comm comm, std::optional<NetworkCosts> costs)
    : comm_(comm), costs_(costs), rank_(rank_in(comm)), size_(size_of(comm)) {}

MessageReducer::MessageReducer(MPI_Comm comm, DeviceSum device) : MessageReducer(comm) { device_ = std::move(device); }

std::size_t MessageReducer::slice_elements(std::size_t element_bytes) const {
  const std::size_t bytes = std::min(kSliceBytes, kScratchBytes / static_cast<std::size_t>(size_));
  return std::clamp<std::size_t>(bytes / element_bytes, 1, mpi_count_limit());
}

std::byte* MessageReducer::scratch(std::size_t bytes) {
  if (device_) return device_->reserve(bytes);
  if (bytes > scratch_bytes_) {
    // Memory may not hold the old and the new block together.
    scratch_.reset();
    scratch_.reset(static_cast<std::byte*>(operator new(bytes, kAlignment)));
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

std::size_t MessageReducer::most_elements(int ranks, std::size_t element_bytes) {
  const auto slices = static_cast<std::size_t>(ranks);
  return std::max<std::size_t>(std::min(kScratchBytes / element_bytes / slices, mpi_count_limit()), 1) * slices;
}

bool MessageReducer::may_gather(std::size_t count, std::size_t element_bytes) const {
  const auto ranks = static_cast<std::size_t>(size_);
  return count <= mpi_count_limit() &&
         count * element_bytes * ranks <= std::max(kGatherBytes, kGatherBytesOfRank * ranks);
}

ExchangeKind MessageReducer::kind_for(std::size_t count, std::size_t element_bytes) {
  const std::size_t bytes = count * element_bytes;
  // A measurement of the costs takes time, and all ranks must take part in it.
  if (size_ < 3 || count > mpi_count_limit() || bytes > kScratchBytes / 2) return ExchangeKind::kPairwise;
  if (!costs_) costs_ = NetworkCosts::find(comm_, comm_);
  return quicker_exchange(*costs_, size_, bytes);
}

void MessageReducer::allreduce(void* data, std::size_t count, const Reduction& reduction) {
  const std::size_t element_bytes = size_of(reduction.dtype);
  if (count == 0) return;
  const bool gathers = may_gather(count, element_bytes);
  // For different counts MPI_Allgather reports an error; with a time-out, MPI_Iallgather would end the process.
  if (gathers && timed_call() == nullptr) return allreduce_gathered(data, count, reduction);
  NeighborCheck(comm_, {"allreduce", {count, reduction}}).finish();  // invariant 5: before any slice is sent
  if (gathers) return allreduce_gathered(data, count, reduction);
  auto* const bytes = static_cast<std::byte*>(data);
  const bool straight = kind_for(count, element_bytes) == ExchangeKind::kPairwise;
  straight ? allreduce_pairwise(bytes, count, reduction) : allreduce_logarithmic(bytes, count, reduction);
}

void MessageReducer::allreduce_pairwise(std::byte* data, std::size_t count, const Reduction& reduction) {
  const std::size_t element_bytes = size_of(reduction.dtype);
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t most = std::min(slice_elements(element_bytes), (count + ranks - 1) / ranks) * ranks;
  std::array<Piece, 3> under_way;
  in_pipeline(
      (count + most - 1) / most,
      [&](std::size_t k) {
        const std::size_t first = k * most;
        under_way[k % 3] = begin(data + first * element_bytes, std::min(most, count - first), k, most, reduction.dtype);
      },
      [&](std::size_t k) { reduce(under_way[k % 3], reduction); }, [&](std::size_t k) { finish(under_way[k % 3]); });
}

MessageReducer::Piece MessageReducer::begin(std::byte* data, std::size_t count, std::size_t number, std::size_t most,
                                            DType dtype) {
  const std::size_t element_bytes = size_of(dtype);
  const auto ranks = static_cast<std::size_t>(size_);
  assert(count <= most);
  const std::size_t set_bytes = (most + ranks - 1) / ranks * ranks * element_bytes;
  Piece piece;
  piece.data = data;
  piece.slices = slices_of_piece(0, count);
  piece.received = scratch(2 * set_bytes) + number % 2 * set_bytes;  // invariant 4: two sets in turn
  piece.exchanging = exchange(data, piece.slices, piece.received, element_bytes);
  return piece;
}

void MessageReducer::reduce(Piece& piece, const Reduction& reduction) const {
  const std::size_t element_bytes = size_of(reduction.dtype);
  piece.exchanging.finish();
  const Slice& own = piece.slices[static_cast<std::size_t>(rank_)];
  reduce_own(piece.data, piece.slices, piece.received, piece.data + own.offset * element_bytes, reduction);
  piece.spreading = spread(piece.data, piece.slices, element_bytes);
}

void MessageReducer::reduce_scatter(const void* send, void* recv, std::size_t part_count, const Reduction& reduction) {
  const std::size_t element_bytes = size_of(reduction.dtype);
  const auto ranks = static_cast<std::size_t>(size_);
  const auto* bytes = static_cast<const std::byte*>(send);
  const std::size_t slice = std::min(slice_elements(element_bytes), part_count);
  if (slice == 0) return;
  std::array<std::byte*, 2> received{scratch(2 * slice * ranks * element_bytes)};
  received[1] = received[0] + slice * ranks * element_bytes;
  std::array<Slices, 2> slices;
  std::array<MessageSteps, 2> exchanging;
  const auto begin = [&](std::size_t k) {
    const std::size_t first = k * slice;
    const std::size_t length = std::min(slice, part_count - first);
    slices[k % 2].clear();
    for (std::size_t i = 0; i < ranks; ++i) slices[k % 2].push_back({i * part_count + first, length});
    exchanging[k % 2] = exchange(bytes, slices[k % 2], received[k % 2], element_bytes);
  };
  const auto reduce = [&](std::size_t k) {
    exchanging[k % 2].finish();
    auto* const out = static_cast<std::byte*>(recv) + k * slice * element_bytes;
    reduce_own(bytes, slices[k % 2], received[k % 2], out, reduction);
  };
  in_pipeline((part_count + slice - 1) / slice, begin, reduce);
}

void MessageReducer::allreduce_gathered(void* data, std::size_t count, const Reduction& reduction) {
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t bytes = count * size_of(reduction.dtype);
  // Invariant 5: the CallShape comes before the elements. Its size keeps the elements aligned.
  const std::size_t block = sizeof(CallShape) + bytes;
  const CallShape own(count, reduction, ++gathered_);
  // Invariant 5: room for longer messages. Open MPI may write them before the error is found.
  std::byte* const all = scratch(2 * (std::max(kGatherBytes, kGatherBytesOfRank * ranks) + sizeof(CallShape) * ranks));
  const auto block_of = [&](int rank) { return all + static_cast<std::size_t>(rank) * block; };
  std::memcpy(block_of(rank_), &own, sizeof own);
  std::memcpy(block_of(rank_) + sizeof own, data, bytes);
  call_mpi(MPI_Allgather, MPI_Iallgather, "allreduce: gathering", bytes, MPI_IN_PLACE, 0, MPI_BYTE, all,
           static_cast<int>(block), MPI_BYTE, comm_);
  std::vector<const void*> inputs;
  for (int rank = 0; rank < size_; ++rank) {
    CallShape theirs;
    std::memcpy(&theirs, block_of(rank), sizeof theirs);
    if (!theirs.is(own)) require_same(comm_, rank, {"allreduce", theirs}, {"allreduce", own});
    inputs.push_back(block_of(rank) + sizeof own);
  }
  reduce_in_order({&data, 1}, inputs, count, reduction);
}

/// J. Bruck's exchange. The slice from rank r to rank r + i takes one hop for each 1 in the binary form of i. Then each
/// rank reduces its slices in rank order, and an MPI_Allgather sends the results to all ranks.
void MessageReducer::allreduce_logarithmic(std::byte* data, std::size_t count, const Reduction& reduction) {
  const std::size_t element_bytes = size_of(reduction.dtype);
  const auto ranks = static_cast<std::size_t>(size_);
  const auto rank = static_cast<std::size_t>(rank_);
  // The exchange needs blocks of equal length, but the last slices may be shorter.
  const Slices slices = slices_of_piece(0, count);
  const std::size_t block = slices.front().length * element_bytes;  // bytes of the longest slice
  std::byte* const blocks = scratch(2 * ranks * block);             // block i first holds the slice for rank + i
  std::byte* const packed = blocks + ranks * block;
  for (std::size_t i = 0; i < ranks; ++i) {
    const Slice& slice = slices[(rank + i) % ranks];
    std::memcpy(blocks + i * block, data + slice.offset * element_bytes, slice.length * element_bytes);
  }
  for (std::size_t hop = 1; hop < ranks; hop *= 2) forward(blocks, packed, block, hop);
  // After the exchange, block i is from rank - i: that rank's elements of the slice that this rank reduces.
  std::vector<const void*> inputs(ranks);
  for (std::size_t i = 0; i < ranks; ++i) inputs[i] = blocks + (rank + ranks - i) % ranks * block;
  void* const out = packed + rank * block;
  reduce_in_order({&out, 1}, inputs, slices[rank].length, reduction);
  call_mpi(MPI_Allgather, MPI_Iallgather, "allreduce: gathering results", block, MPI_IN_PLACE, 0, MPI_BYTE, packed,
           static_cast<int>(block), MPI_BYTE, comm_);
  for (std::size_t i = 0; i < ranks; ++i) {
    std::memcpy(data + slices[i].offset * element_bytes, packed + i * block, slices[i].length * element_bytes);
  }
}

void MessageReducer::forward(std::byte* blocks, std::byte* packed, std::size_t block, std::size_t hop) const {
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<std::size_t> moved;  // blocks that take this hop; `hop` is a power of two
  for (std::size_t i = hop; i < ranks; ++i) {
    if ((i & hop) != 0) moved.push_back(i);
  }
  for (std::size_t k = 0; k < moved.size(); ++k) std::memcpy(packed + k * block, blocks + moved[k] * block, block);
  const std::size_t bytes = moved.size() * block;
  const int step = static_cast<int>(hop);
  std::byte* const came = packed + bytes;  // there is room: about half of the blocks move
  std::array<MPI_Request, 2> requests;
  mpi_check(MPI_Irecv(came, static_cast<int>(bytes), MPI_BYTE, (rank_ + size_ - step) % size_, kInternalTag, comm_,
                      &requests[0]),
            "allreduce: receiving slices", bytes);
  mpi_check(
      MPI_Isend(packed, static_cast<int>(bytes), MPI_BYTE, (rank_ + step) % size_, kInternalTag, comm_, &requests[1]),
      "allreduce: forwarding slices", bytes);
  mpi_wait(requests, "allreduce: forwarding slices", bytes);
  for (std::size_t k = 0; k < moved.size(); ++k) std::memcpy(blocks + moved[k] * block, came + k * block, block);
}

void MessageReducer::reduce(const void* send, void* recv, std::size_t count, const Reduction& reduction, int root) {
  const std::size_t element_bytes = size_of(reduction.dtype);
  const auto ranks = static_cast<std::size_t>(size_);
  const auto* bytes = static_cast<const std::byte*>(send);
  auto* result = static_cast<std::byte*>(recv);
  const std::size_t slice = std::min(slice_elements(element_bytes), (count + ranks - 1) / ranks);
  std::byte* received = scratch((ranks + 1) * slice * element_bytes);
  std::byte* reduced = received + ranks * slice * element_bytes;
  for (std::size_t first = 0; first < count; first += slice * ranks) {
    const Slices slices = slices_of_piece(first, std::min(count - first, slice * ranks));
    exchange(bytes, slices, received, element_bytes).finish();
    const Slice& own = slices[static_cast<std::size_t>(rank_)];
    reduce_own(bytes, slices, received, rank_ == root ? result + own.offset * element_bytes : reduced, reduction);
    collect(slices, reduced, result, element_bytes, root).finish();
  }
}

MessageReducer::Slices MessageReducer::slices_of_piece(std::size_t first, std::size_t count) const {
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t length = (count + ranks - 1) / ranks;
  Slices slices(ranks);
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t begin = std::min(i * length, count);
    slices[i] = {first + begin, std::min(begin + length, count) - begin};
  }
  return slices;
}

MessageSteps MessageReducer::exchange(const std::byte* data, const Slices& slices, std::byte* received,
                                      std::size_t element_bytes) const {
  const std::size_t own_bytes = slices[static_cast<std::size_t>(rank_)].length * element_bytes;
  return {comm_, slices.front().length * element_bytes, "exchanging slices",
          [=](std::size_t source, std::size_t dest) -> MessageSteps::Step {
            return {{received + source * own_bytes, own_bytes}, bytes_of(data, slices[dest], element_bytes)};
          }};
}

void MessageReducer::reduce_own(const std::byte* data, const Slices& slices, const std::byte* received, void* out,
                                const Reduction& reduction) const {
  const auto rank = static_cast<std::size_t>(rank_);
  const Slice& own = slices[rank];
  const std::size_t element_bytes = size_of(reduction.dtype);
  if (device_) {
    return device_->sum({data + own.offset * element_bytes, received, out, own.length, static_cast<unsigned>(rank_),
                         static_cast<unsigned>(size_)},
                        reduction.dtype);
  }
  std::vector<const void*> inputs(slices.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = received + i * own.length * element_bytes;
  inputs[rank] = data + own.offset * element_bytes;
  reduce_in_order({&out, 1}, inputs, own.length, reduction);
}

MessageSteps MessageReducer::spread(std::byte* data, const Slices& slices, std::size_t element_bytes) const {
  const auto own = bytes_of(data, slices[static_cast<std::size_t>(rank_)], element_bytes);
  return {comm_, slices.front().length * element_bytes, "spreading results",
          [=](std::size_t source, std::size_t /*dest*/) -> MessageSteps::Step {
            return {bytes_of(data, slices[source], element_bytes), own};
          }};
}

MessageSteps MessageReducer::collect(const Slices& slices, const std::byte* reduced, std::byte* result,
                                     std::size_t element_bytes, int root) const {
  const std::size_t own_bytes = slices[static_cast<std::size_t>(rank_)].length * element_bytes;
  return {comm_, slices.front().length * element_bytes, "collecting a result",
          [=, this](std::size_t source, std::size_t dest) {
            MessageSteps::Step step;
            if (rank_ == root) step.in = bytes_of(result, slices[source], element_bytes);
            if (static_cast<int>(dest) == root) step.out = {reduced, own_bytes};
            return step;
          }};
}

}  // namespace mn

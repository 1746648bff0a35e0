#include <algorithm>
#include <new>

#include <mn/comm/mpi.hpp>
#include <mn/comm/ordered_reducer.hpp>

namespace mn {
namespace {

/// Up to this many gathered bytes, one exchange beats two.
constexpr std::size_t kSmallMessageBytes = 16 * 1024;
constexpr std::align_val_t kAlignment{64};

}  // namespace

void OrderedReducer::Free::operator()(std::byte* memory) const noexcept { operator delete(memory, kAlignment); }

OrderedReducer::OrderedReducer(MPI_Comm comm, std::size_t count_limit) : comm_(comm), count_limit_(count_limit) {
  mpi_check(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
  mpi_check(MPI_Comm_size(comm, &size_), "MPI_Comm_size");
}

std::size_t OrderedReducer::slice_elements(std::size_t element_bytes) const {
  const std::size_t bytes = std::min(kSliceBytes, kScratchBytes / static_cast<std::size_t>(size_));
  return std::clamp<std::size_t>(bytes / element_bytes, 1, count_limit_);
}

std::byte* OrderedReducer::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_.reset();
    scratch_.reset(static_cast<std::byte*>(operator new(bytes, kAlignment)));
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

void OrderedReducer::allreduce(void* data, std::size_t count, const Reduction& reduction) {
  const std::size_t element_bytes = size_of(reduction.dtype);
  const auto ranks = static_cast<std::size_t>(size_);
  if (count == 0) return;
  if (count <= count_limit_ && count * element_bytes * ranks <= std::max(kSmallMessageBytes, 512 * ranks)) {
    return allreduce_small(data, count, reduction);
  }
  auto* bytes = static_cast<std::byte*>(data);
  const std::size_t slice = std::min(slice_elements(element_bytes), (count + ranks - 1) / ranks);
  const std::size_t set_bytes = slice * ranks * element_bytes;
  std::byte* received = scratch(2 * set_bytes);
  std::size_t set = 0;
  Slices next = slices_of_piece(0, std::min(count, slice * ranks));
  MessageSteps next_exchange = exchange(bytes, next, received, element_bytes);
  MessageSteps spreading;
  for (std::size_t first = 0; first < count; first += slice * ranks, set ^= 1) {
    const Slices slices = std::move(next);
    MessageSteps exchanging = std::move(next_exchange);
    const std::size_t after = first + slice * ranks;
    if (after < count) {
      next = slices_of_piece(after, std::min(count - after, slice * ranks));
      next_exchange = exchange(bytes, next, received + (set ^ 1) * set_bytes, element_bytes);
    }
    exchanging.finish();
    const Slice& own = slices[static_cast<std::size_t>(rank_)];
    reduce_own(bytes, slices, received + set * set_bytes, bytes + own.offset * element_bytes, reduction);
    spreading.finish();
    spreading = spread(bytes, slices, element_bytes);
  }
  spreading.finish();
}

void OrderedReducer::reduce_scatter(const void* send, void* recv, std::size_t part_count, const Reduction& reduction) {
  const std::size_t element_bytes = size_of(reduction.dtype);
  const auto ranks = static_cast<std::size_t>(size_);
  const auto* bytes = static_cast<const std::byte*>(send);
  const std::size_t slice = std::min(slice_elements(element_bytes), part_count);
  std::byte* received = scratch(slice * ranks * element_bytes);
  for (std::size_t first = 0; first < part_count; first += slice) {
    Slices slices(ranks);
    for (std::size_t i = 0; i < ranks; ++i) slices[i] = {i * part_count + first, std::min(slice, part_count - first)};
    exchange(bytes, slices, received, element_bytes).finish();
    reduce_own(bytes, slices, received, static_cast<std::byte*>(recv) + first * element_bytes, reduction);
  }
}

void OrderedReducer::allreduce_small(void* data, std::size_t count, const Reduction& reduction) {
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t bytes = count * size_of(reduction.dtype);
  std::byte* all = scratch(bytes * ranks);
  call_mpi(MPI_Allgather, MPI_Iallgather, "allreduce: gathering", bytes, data, static_cast<int>(bytes), MPI_BYTE, all,
           static_cast<int>(bytes), MPI_BYTE, comm_);
  std::vector<const void*> inputs(ranks);
  for (std::size_t i = 0; i < ranks; ++i) inputs[i] = all + i * bytes;
  reduce_in_order({&data, 1}, inputs, count, reduction);
}

void OrderedReducer::reduce(const void* send, void* recv, std::size_t count, const Reduction& reduction, int root) {
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

OrderedReducer::Slices OrderedReducer::slices_of_piece(std::size_t first, std::size_t count) const {
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t length = (count + ranks - 1) / ranks;
  Slices slices(ranks);
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t begin = std::min(i * length, count);
    slices[i] = {first + begin, std::min(begin + length, count) - begin};
  }
  return slices;
}

MessageSteps OrderedReducer::exchange(const std::byte* data, const Slices& slices, std::byte* received,
                                      std::size_t element_bytes) const {
  const std::size_t own_bytes = slices[static_cast<std::size_t>(rank_)].length * element_bytes;
  return {size_, "exchanging slices", [=, this](int step, MessageSteps::Pair& requests) {
            const int source = (rank_ + size_ - step) % size_;
            const int dest = (rank_ + step) % size_;
            const Slice slice = slices[static_cast<std::size_t>(dest)];
            if (own_bytes > 0) {
              mpi_check(MPI_Irecv(received + static_cast<std::size_t>(source) * own_bytes, static_cast<int>(own_bytes),
                                  MPI_BYTE, source, kInternalTag, comm_, &requests[0]),
                        "receiving a slice", own_bytes);
            }
            if (slice.length > 0) {
              mpi_check(MPI_Isend(data + slice.offset * element_bytes, static_cast<int>(slice.length * element_bytes),
                                  MPI_BYTE, dest, kInternalTag, comm_, &requests[1]),
                        "sending a slice", slice.length * element_bytes);
            }
          }};
}

void OrderedReducer::reduce_own(const std::byte* data, const Slices& slices, const std::byte* received, void* out,
                                const Reduction& reduction) const {
  const auto rank = static_cast<std::size_t>(rank_);
  const Slice& own = slices[rank];
  const std::size_t element_bytes = size_of(reduction.dtype);
  std::vector<const void*> inputs(slices.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = received + i * own.length * element_bytes;
  inputs[rank] = data + own.offset * element_bytes;
  reduce_in_order({&out, 1}, inputs, own.length, reduction);
}

MessageSteps OrderedReducer::spread(std::byte* data, const Slices& slices, std::size_t element_bytes) const {
  return {size_, "spreading results", [=, this](int step, MessageSteps::Pair& requests) {
            const auto bytes = [&](const Slice& slice) { return static_cast<int>(slice.length * element_bytes); };
            const int source = (rank_ + size_ - step) % size_;
            const int dest = (rank_ + step) % size_;
            const Slice& own = slices[static_cast<std::size_t>(rank_)];
            const Slice& theirs = slices[static_cast<std::size_t>(source)];
            if (theirs.length > 0) {
              mpi_check(MPI_Irecv(data + theirs.offset * element_bytes, bytes(theirs), MPI_BYTE, source, kInternalTag,
                                  comm_, &requests[0]),
                        "receiving a result");
            }
            if (own.length > 0) {
              mpi_check(MPI_Isend(data + own.offset * element_bytes, bytes(own), MPI_BYTE, dest, kInternalTag, comm_,
                                  &requests[1]),
                        "sending a result");
            }
          }};
}

MessageSteps OrderedReducer::collect(const Slices& slices, const std::byte* reduced, std::byte* result,
                                     std::size_t element_bytes, int root) const {
  return {size_, "collecting a result", [=, this](int step, MessageSteps::Pair& requests) {
            const int source = (rank_ + size_ - step) % size_;
            const Slice& theirs = slices[static_cast<std::size_t>(source)];
            const Slice& own = slices[static_cast<std::size_t>(rank_)];
            if (rank_ == root && theirs.length > 0) {
              mpi_check(
                  MPI_Irecv(result + theirs.offset * element_bytes, static_cast<int>(theirs.length * element_bytes),
                            MPI_BYTE, source, kInternalTag, comm_, &requests[0]),
                  "receiving a result");
            }
            if ((rank_ + step) % size_ == root && own.length > 0) {
              mpi_check(MPI_Isend(reduced, static_cast<int>(own.length * element_bytes), MPI_BYTE, root, kInternalTag,
                                  comm_, &requests[1]),
                        "sending a result");
            }
          }};
}

}  // namespace mn

// MessageReducer's allreduce in log n messages: J. Bruck's exchange, in which the slice for rank r + i takes one hop
// for each binary digit of i; then a reduction in rank order, then MPI_Allgather.
#include <cstring>
#include <vector>

#include <mn/comm/messages/message_reducer.hpp>
#include <mn/comm/mpi/mpi.hpp>

namespace mn {

void MessageReducer::allreduce_logarithmic(std::byte* data, std::size_t count, const Reduction& reduction) {
  const std::size_t element_bytes = size_of(reduction.dtype);
  const auto ranks = static_cast<std::size_t>(size_);
  const auto rank = static_cast<std::size_t>(rank_);
  // Blocks are equally long, as J. Bruck's exchange requires; the last slices are shorter.
  const Slices slices = slices_of_piece(0, count);
  const std::size_t block = slices.front().length * element_bytes;  // of the longest slice
  std::byte* const blocks = scratch(2 * ranks * block);             // [i] is for rank + i
  std::byte* const packed = blocks + ranks * block;
  for (std::size_t i = 0; i < ranks; ++i) {
    const Slice& slice = slices[(rank + i) % ranks];
    std::memcpy(blocks + i * block, data + slice.offset * element_bytes, slice.length * element_bytes);
  }
  for (std::size_t hop = 1; hop < ranks; hop *= 2) forward(blocks, packed, block, hop);
  // Block i came from rank - i, and holds the calling rank's slice.
  std::vector<const void*> inputs(ranks);
  for (std::size_t i = 0; i < ranks; ++i) inputs[i] = blocks + (rank + ranks - i) % ranks * block;
  void* const out = packed + rank * block;
  reduce_in_order({&out, 1}, inputs, slices[rank].length, reduction);
  // MPI_IN_PLACE expects the rank's own part there.
  call_mpi(MPI_Allgather, MPI_Iallgather, "allreduce: gathering results", block, MPI_IN_PLACE, 0, MPI_BYTE, packed,
           static_cast<int>(block), MPI_BYTE, comm_);
  for (std::size_t i = 0; i < ranks; ++i) {
    std::memcpy(data + slices[i].offset * element_bytes, packed + i * block, slices[i].length * element_bytes);
  }
}

void MessageReducer::forward(std::byte* blocks, std::byte* packed, std::size_t block, std::size_t hop) const {
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<std::size_t> moved;  // blocks whose remaining distance includes this hop (bit i set)
  for (std::size_t i = hop; i < ranks; ++i) {
    if ((i & hop) != 0) moved.push_back(i);
  }
  for (std::size_t k = 0; k < moved.size(); ++k) std::memcpy(packed + k * block, blocks + moved[k] * block, block);
  const std::size_t bytes = moved.size() * block;
  const int step = static_cast<int>(hop);
  std::byte* const came = packed + bytes;  // at most half of the blocks move
  MessageSteps::Pair requests;
  mpi_check(MPI_Irecv(came, static_cast<int>(bytes), MPI_BYTE, (rank_ + size_ - step) % size_, kInternalTag, comm_,
                      &requests[0]),
            "allreduce: receiving slices", bytes);
  mpi_check(
      MPI_Isend(packed, static_cast<int>(bytes), MPI_BYTE, (rank_ + step) % size_, kInternalTag, comm_, &requests[1]),
      "allreduce: forwarding slices", bytes);
  mpi_wait(requests, "allreduce: forwarding slices", bytes);
  for (std::size_t k = 0; k < moved.size(); ++k) std::memcpy(blocks + moved[k] * block, came + k * block, block);
}

}  // namespace mn

/// An exchange of parts of any length between all ranks, for gatherv, scatterv, allgatherv and alltoallv.
///
/// Communicator calls exchange_parts() on all ranks at once.
///
/// Invariants:
/// 1. Sender and receiver know each part's length. A part without elements needs no message.
/// 2. Between two ranks there is at most one message in each direction: one tag is enough.
///
/// Cost: a message for each part to another rank, and a copy of the rank's own part; eight steps are in flight
/// (MessageSteps). Host memory only.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <mpi.h>

#include <mn/core/buffer.hpp>

namespace mn {

/// Cuts `whole` into neighboring parts of `counts` elements. The counts must add up to at most the elements of `whole`.
template <class View>
[[nodiscard]] std::vector<View> parts_of(const View& whole, std::span<const std::size_t> counts) {
  std::vector<View> parts;
  std::size_t first = 0;
  for (const std::size_t count : counts) {
    parts.push_back(whole.slice(first, count));
    first += count;
  }
  return parts;
}

/// Collective: sent[r] goes to rank r, received[r] comes from rank r. A message counts at most `count_limit` elements
/// of its dtype, or one element of a derived type. sent and received must not overlap.
void exchange_parts(MPI_Comm comm, std::span<const ConstBufferView> sent, std::span<const BufferView> received,
                    std::size_t count_limit);

}  // namespace mn

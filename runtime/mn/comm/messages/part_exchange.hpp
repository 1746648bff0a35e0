/// Parts of any lengths from every rank to every rank: what gatherv, scatterv, allgatherv and alltoallv are.
///
/// Communicator calls it, on all ranks at once.
///
/// Invariants:
/// 1. Both sides know each part's length. For one without elements no message is sent.
/// 2. Between two ranks there is at most one message in each direction, so one tag serves.
///
/// Cost: a message for each part that goes to another rank, and a copy of the rank's own part; eight steps are in
/// flight (MessageSteps). Host memory only.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <mpi.h>

#include <mn/core/buffer.hpp>

namespace mn {

/// `whole` cut into neighboring parts of `counts` elements, which it holds in all.
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

/// Collective: sent[r] goes to rank r, received[r] comes from rank r. Messages count at most `count_limit` elements of
/// their dtype, or are one element of a derived type. sent and received must not overlap.
void exchange_parts(MPI_Comm comm, std::span<const ConstBufferView> sent, std::span<const BufferView> received,
                    std::size_t count_limit);

}  // namespace mn

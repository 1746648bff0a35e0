/// Tests of messages and of sums.
#pragma once

#include <cstddef>
#include <string>

#include <mn/comm/communicator.hpp>

namespace mn::selftest {

/// Collective. A token passes all ranks and sums their numbers on its way; rank 0 judges.
[[nodiscard]] std::string test_ring(Communicator& comm);

/// The addend of `rank` for element i of a test sum, and the sum over `size` ranks: below 2^24, exact in floats, for up
/// to 500,000 ranks.
[[nodiscard]] float term(std::size_t i, int rank);
[[nodiscard]] float sum_of_terms(std::size_t i, int size);

/// Collective. Tests sums of such terms.
[[nodiscard]] std::string test_allreduce(Communicator& comm);

}  // namespace mn::selftest

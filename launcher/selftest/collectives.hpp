/// Do messages arrive, and are sums right?
#pragma once

#include <cstddef>
#include <string>

#include <mn/comm/communicator.hpp>

namespace mn::selftest {

/// Collective. A token passes all ranks and gathers their numbers on its way; judged on rank 0.
[[nodiscard]] std::string test_ring(Communicator& comm);

/// What a rank adds to element i of a test sum, and what that comes to. Below 2^24, which floats hold exactly, for up
/// to 500,000 ranks.
[[nodiscard]] float term(std::size_t i, int rank);
[[nodiscard]] float sum_of_terms(std::size_t i, int size);

/// Collective. Sums of such terms.
[[nodiscard]] std::string test_allreduce(Communicator& comm);

}  // namespace mn::selftest

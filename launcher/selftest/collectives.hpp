/// Do messages arrive, and are sums right?
#pragma once

#include <string>

#include <mn/comm/communicator.hpp>

namespace mn::selftest {

/// Collective. A token passes all ranks and gathers their numbers on its way; judged on rank 0.
[[nodiscard]] std::string test_ring(Communicator& comm);

/// Collective. Sums of small integers, which floats hold exactly.
[[nodiscard]] std::string test_allreduce(Communicator& comm);

}  // namespace mn::selftest

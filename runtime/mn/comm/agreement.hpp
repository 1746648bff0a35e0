/// Whether the ranks hold the same.
#pragma once

#include <cstdint>

#include <mn/comm/communicator.hpp>

namespace mn {

/// Collective: true on every rank alike if all gave the same value, e.g. a hash of what they hold. One small allreduce.
[[nodiscard]] bool same_on_all_ranks(std::uint64_t value, Communicator& comm);

}  // namespace mn

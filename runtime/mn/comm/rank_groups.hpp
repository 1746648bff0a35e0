/// How the ranks of two communicators lie to each other.
#pragma once

#include <mn/comm/communicator.hpp>

namespace mn {

/// Local. Whether every rank of `part`, to which this rank belongs, is one of `group`'s.
[[nodiscard]] bool includes(const Communicator& group, const Communicator& part);

}  // namespace mn

/// The tree in which the nodes of a job are connected. 128 nodes are two levels below the root, 4,096 three.
#pragma once

#include <mn/core/tree.hpp>

namespace mn::launcher {

inline constexpr Tree kNodeTree{16};

}  // namespace mn::launcher

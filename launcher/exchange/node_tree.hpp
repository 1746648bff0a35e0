/// The tree of a job's nodes. 128 nodes have two levels below the root, 4,096 nodes three.
#pragma once

#include <mn/core/tree.hpp>

namespace mn::launcher {

inline constexpr Tree kNodeTree{16};

}  // namespace mn::launcher

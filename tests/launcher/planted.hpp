/// A difference between a node and the two remaining nodes of healthy_job(), and the expected line.
#pragma once

#include "healthy.hpp"

namespace mn::launcher {

struct Planted {
  const char* name;
  const char* line;  ///< the line's text before the host
  const char* what;  ///< a part of the line
  void (*spoil)(NodeFacts&);
};

}  // namespace mn::launcher

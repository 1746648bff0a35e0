/// A difference between one node and the two others of healthy_job(), and the line that it is to make.
#pragma once

#include "healthy.hpp"

namespace mn::launcher {

struct Planted {
  const char* name;
  const char* line;  ///< how it begins, before the host
  const char* what;  ///< a part of it
  void (*spoil)(NodeFacts&);
};

}  // namespace mn::launcher

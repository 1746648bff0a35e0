/// What tests of checkpoints share.
#pragma once

#include <functional>
#include <string>

#include <mn/core/error.hpp>

#include "tests/train/toy.hpp"

namespace mn::toy {

/// Runs `body` on rank 0 alone; what it checks is local.
template <class F>
void on_rank_zero(F body) {
  if (world()->rank() == 0) body();
  world()->barrier();
}

/// What `body` throws.
inline std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no DataError";
}

}  // namespace mn::toy

/// What tests of checkpoints share.
#pragma once

#include <functional>
#include <string>

#include <gtest/gtest.h>

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

/// A folder for checkpoints, and a job that writes there.
class CheckpointTest : public testing::Test {
 protected:
  TestFolder folder_{world()};
  ToyOptions options_ = {.trainer = {.iterations = 9, .out = folder_.path()}};

  std::string resume_message(const std::string& from, ToyOptions options) {
    return message_of([&] { ToyJob(world(), options).trainer->resume(from); });
  }
};

}  // namespace mn::toy

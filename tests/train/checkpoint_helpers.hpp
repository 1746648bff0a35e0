/// What tests of checkpoints share.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
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

/// Makes a checkpoint of one rank whose manifest has this text.
inline void make_checkpoint(const std::filesystem::path& path, const std::string& manifest) {
  std::filesystem::create_directories(path);
  write_file(path / checkpoint_shard_name(0, 1), "");
  write_file(path / kCheckpointManifestName, manifest);
}

/// Makes checkpoints that can be found, but not read. Collective.
inline void make_checkpoints(const std::filesystem::path& out, std::initializer_list<int> iterations,
                             const std::string& manifest = "of another") {
  on_rank_zero([&] {
    for (const int iteration : iterations) make_checkpoint(checkpoint_path(out, iteration), manifest);
  });
}

}  // namespace mn::toy

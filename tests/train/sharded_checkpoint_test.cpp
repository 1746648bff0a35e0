// Checkpoints of sharded trainings, which any number of ranks resumes with any Shard.
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/optimizers/lamb.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/trainer/extensions/snapshot.hpp>
#include <mn/trainer/extensions/weight_average.hpp>

#include "tests/support/resident_bytes.hpp"
#include "tests/train/checkpoint_helpers.hpp"

namespace mn {
namespace {

using toy::ToyJob;
using toy::world;

using Make = decltype(toy::ToyOptions::make);
constexpr Shard kModes[] = {Shard::kNone, Shard::kOptimizer, Shard::kGradients, Shard::kParameters};

at::Tensor weights_of(const ToyJob& job) {
  const WholeParameters whole(*job.model);
  return job.weights();
}

class ShardedCheckpointTest : public toy::CheckpointTest {
 protected:
  [[nodiscard]] ToyJob job(const std::shared_ptr<Communicator>& comm, Shard what, std::int64_t iterations,
                           const Make& make = {}) const {
    toy::ToyOptions options{
        .size = 48, .fused = true, .make = make, .trainer = {.iterations = iterations, .out = folder_.path()}};
    options.optimizer.shard = {.what = what, .unit_bytes = 130};  // each layer is a unit
    return {comm, options};
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  [[nodiscard]] std::string path(Shard what) const { return path(std::to_string(static_cast<int>(what))); }

  /// The checkpoint's parameters, moments and averages: bytes by name.
  [[nodiscard]] std::map<std::string, std::string> contents(const std::string& name) const {
    SavedCheckpoint saved(path(name));
    std::map<std::string, std::string> all;
    for (const auto& [tensor, about] : saved.manifest().tensors) {
      if (tensor.starts_with("rank.")) continue;
      std::string bytes(about.bytes(), ' ');
      saved.read(tensor, std::as_writable_bytes(std::span(bytes)));
      all.emplace(tensor, std::move(bytes));
    }
    return all;
  }
  /// `savers` ranks train and save; `loaders` ranks load, and save again. Both checkpoints have equal tensors.
  void expect_equal_after(int savers, Shard before, int loaders, Shard after, const Make& make = {}) const {
    const auto saving = world()->split(world()->rank() < savers ? 0 : -1, 0);
    if (saving) {
      const ToyJob first = job(saving, before, 3, make);
      EXPECT_EQ(first.trainer->run(), 0);
      first.trainer->save(path("first"));
    }
    world()->barrier();
    const auto loading = world()->split(world()->rank() < loaders ? 0 : -1, 0);
    if (loading) {
      const ToyJob second = job(loading, after, 3, make);
      EXPECT_TRUE(second.trainer->resume(path("first")));
      second.trainer->save(path("second"));
    }
    toy::on_rank_zero([&] {
      const auto first = contents("first"), second = contents("second");
      EXPECT_EQ(first.size(), second.size());
      for (const auto& [name, bytes] : first) {
        EXPECT_TRUE(second.contains(name) && second.at(name) == bytes)
            << name << " of " << savers << " ranks with " << shard_name(before) << " and " << loaders << " with "
            << shard_name(after);
      }
      std::filesystem::remove_all(path("first"));
      std::filesystem::remove_all(path("second"));
    });
  }
};

TEST_F(ShardedCheckpointTest, EachShardResumesEachShard) {
  const ToyJob whole = job(world(), Shard::kNone, 8);
  EXPECT_EQ(whole.trainer->run(), 0);
  for (const Shard what : kModes) {
    const ToyJob first = job(world(), what, 4);
    EXPECT_EQ(first.trainer->run(), 0);
    first.trainer->save(path(what));
  }
  for (const Shard before : kModes) {
    for (const Shard after : kModes) {
      const ToyJob second = job(world(), after, 8);
      EXPECT_TRUE(second.trainer->resume(path(before)));
      EXPECT_EQ(second.trainer->run(), 0);
      EXPECT_TRUE(weights_of(second).equal(weights_of(whole)))
          << static_cast<int>(before) << " resumed with " << static_cast<int>(after);
    }
  }
}

TEST_F(ShardedCheckpointTest, OtherNumbersOfRanksResume) {
  const int all = world()->size();
  for (int few = 1; few < all; ++few) {
    for (const Shard before : kModes) {
      for (const Shard after : kModes) {
        expect_equal_after(few, before, all, after);
        expect_equal_after(all, before, few, after);
      }
    }
  }
}

TEST_F(ShardedCheckpointTest, StateOfEachOptimizerIsSaved) {
  const std::map<std::string, Make> optimizers = {
      {"SGD",
       [](auto p) { return std::make_unique<torch::optim::SGD>(p, torch::optim::SGDOptions(0.1).momentum(0.9)); }},
      {"Adam", [](auto p) { return std::make_unique<torch::optim::Adam>(p, torch::optim::AdamOptions(0.01)); }},
      {"AMSGrad",
       [](auto p) { return std::make_unique<torch::optim::AdamW>(p, torch::optim::AdamWOptions(0.01).amsgrad(true)); }},
      {"FusedAdamW", [](auto p) { return std::make_unique<FusedAdamW>(p, torch::optim::AdamWOptions(0.01)); }},
      {"LAMB", [](auto p) { return std::make_unique<Lamb>(p, torch::optim::AdamWOptions(0.01)); }}};
  for (const auto& [name, make] : optimizers) {
    SCOPED_TRACE(name);
    const ToyJob whole = job(world(), Shard::kParameters, 6, make), first = job(world(), Shard::kParameters, 3, make);
    EXPECT_EQ(whole.trainer->run(), 0);
    EXPECT_EQ(first.trainer->run(), 0);
    first.trainer->save(path("c"));
    const ToyJob second = job(world(), Shard::kParameters, 6, make);
    EXPECT_TRUE(second.trainer->resume(path("c")));
    EXPECT_EQ(second.trainer->run(), 0);
    EXPECT_TRUE(weights_of(second).equal(weights_of(whole)));
    toy::on_rank_zero([&] { std::filesystem::remove_all(path("c")); });
    expect_equal_after(world()->size(), Shard::kParameters, 1, Shard::kNone, make);
  }
}

TEST_F(ShardedCheckpointTest, AveragesAndTheScaleOfLossesAreSaved) {
  struct Run {
    ToyJob job;
    extensions::WeightAverage& average;
    explicit Run(const toy::ToyOptions& options)
        : job(world(), options), average(job.trainer->extend(std::make_unique<extensions::WeightAverage>(0.9))) {}
    at::Tensor averages() {
      const extensions::AveragedWeights averaged(average);
      return weights_of(job);
    }
  };
  const auto options = [&](Shard what, std::int64_t iterations) {
    toy::ToyOptions chosen = options_;
    chosen.size = 48;
    chosen.trainer.iterations = iterations;
    chosen.optimizer.shard = {.what = what, .unit_bytes = 130};
    chosen.optimizer.grad_scaler = GradScalerOptions{.growth_interval = 3};
    return chosen;
  };
  Run whole(options(Shard::kNone, 8));
  EXPECT_EQ(whole.job.trainer->run(), 0);
  for (const Shard before : kModes) {
    Run first(options(before, 4));
    EXPECT_EQ(first.job.trainer->run(), 0);
    first.job.trainer->save(path(before));
    for (const Shard after : kModes) {
      Run second(options(after, 8));
      EXPECT_TRUE(second.job.trainer->resume(path(before)));
      EXPECT_EQ(second.job.trainer->run(), 0);
      EXPECT_TRUE(weights_of(second.job).equal(weights_of(whole.job)));
      EXPECT_TRUE(second.averages().equal(whole.averages()))
          << static_cast<int>(before) << " resumed with " << static_cast<int>(after);
    }
  }
}

TEST_F(ShardedCheckpointTest, SavesInTheBackgroundHoldTheStepAtWhichTheyBegan) {
  const ToyJob blocking = job(world(), Shard::kParameters, 3), background = job(world(), Shard::kParameters, 9);
  EXPECT_EQ(blocking.trainer->run(), 0);
  blocking.trainer->save(path("blocking"));
  background.trainer->extend(std::make_unique<extensions::Snapshot>(100), {.trigger = Interval(3, "iteration")});
  EXPECT_EQ(background.trainer->run(), 0);
  toy::on_rank_zero([&] { EXPECT_EQ(contents("blocking"), contents("ckpt/step-00000003")); });
}

TEST_F(ShardedCheckpointTest, ADamagedPieceIsAnErrorOnAllRanks) {
  const ToyJob first = job(world(), Shard::kParameters, 3);
  EXPECT_EQ(first.trainer->run(), 0);
  first.trainer->save(path("c"));
  toy::on_rank_zero([&] {
    const auto last = folder_.path() / "c" / checkpoint_shard_name(world()->size() - 1, world()->size());
    std::string bytes = read_file(last);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_file(last, bytes);
  });
  const ToyJob second = job(world(), Shard::kParameters, 3);
  const std::string message = toy::message_of([&] { second.trainer->resume(path("c")); });
  EXPECT_THAT(message, testing::HasSubstr("shard-"));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_TRUE(toy::same_on_all(message));
}

/// A table of 48 MiB.
struct Table : torch::nn::Module {
  Table() : table(register_parameter("table", torch::zeros({2 << 20, 6}))) {}
  at::Tensor table;
};

/// Neither a save nor a load needs a whole tensor.
TEST_F(ShardedCheckpointTest, MemoryIsThatOfThePieces) {
  constexpr std::int64_t kBytes = 48 << 20, kSlack = 12 << 20;
  const auto make = [&] {
    const auto model = std::make_shared<Table>();
    const auto loss = [model](const Batch& batch, Summary&) {
      return (torch::embedding(model->table, batch.target) * batch.data).sum();
    };
    auto sgd = std::make_unique<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    return std::make_unique<Trainer>(
        world(), create_multi_node_optimizer(std::move(sgd), world(), {.shard = {.what = Shard::kParameters}}),
        std::make_shared<toy::ToyIterator>(48, 4, *world()), model, loss,
        TrainerOptions{.iterations = 1, .out = folder_.path()});
  };
  const auto first = make(), second = make();
  EXPECT_EQ(first->run(), 0);
  const auto peak_of = [](const std::function<void()>& work) {
    malloc_trim(0);
    const std::int64_t before = test::resident_bytes();
    if (!test::reset_peak_bytes()) return std::int64_t{0};
    work();
    return test::peak_bytes() - before;
  };
  EXPECT_LE(peak_of([&] { first->save(path("c")); }), kSlack);
  EXPECT_LE(peak_of([&] { EXPECT_TRUE(second->resume(path("c"))); }), kBytes / world()->size() + kSlack);
}

}  // namespace
}  // namespace mn

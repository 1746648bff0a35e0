// Trainers of the parts of a model, which resume together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/error.hpp>
#include <mn/trainer/extensions/snapshot.hpp>
#include <mn/trainer/replica_sets.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::world;

/// Rank 0 alone, ranks 1 and 2 (where they are) together, rank 3 in no set.
std::vector<std::vector<int>> sets_of_world() {
  std::vector<std::vector<int>> sets = {{0}};
  if (world()->size() > 1) sets.push_back({1});
  if (world()->size() > 2) sets.back().push_back(2);
  return sets;
}

std::unique_ptr<toy::ToyJob> make_job(const ReplicaSet& set, std::int64_t iterations) {
  auto job =
      std::make_unique<toy::ToyJob>(set.comm, toy::ToyOptions{.trainer = {.iterations = iterations, .out = set.out}});
  job->trainer->extend(std::make_unique<extensions::Snapshot>(), {.trigger = Interval(2, "iteration")});
  return job;
}

TEST(ReplicaSets, HaveCommunicatorsAndFoldersOfTheirOwn) {
  const ReplicaSet set = create_replica_set(*world(), sets_of_world(), "result");
  constexpr int kNumbers[] = {0, 1, 1, 2};
  EXPECT_EQ(set.number, kNumbers[world()->rank()]);
  EXPECT_EQ(set.comm->size(), set.number == 1 && world()->size() > 2 ? 2 : 1);
  EXPECT_EQ(set.out, "result/set-" + std::to_string(set.number));
  for (const int wrong : {0, world()->size(), -1}) {
    EXPECT_THAT(
        [&] {
          static_cast<void>(create_replica_set(*world(), {{0}, {wrong}}, "result"));
        },
        ThrowsMessage<ArgumentError>(HasSubstr("replica set 1 lists rank " + std::to_string(wrong))));
  }
}

TEST(ReplicaSets, ResumeFromTheNewestIterationThatAllHave) {
  const toy::TestFolder folder(world());
  const ReplicaSet set = create_replica_set(*world(), sets_of_world(), folder.path());
  {
    const auto first = make_job(set, 1);
    EXPECT_FALSE(resume_replica_sets(*world(), *first->trainer));
  }
  const std::int64_t common = world()->size() == 1 ? 6 : 4;
  at::Tensor expected;
  {
    const auto job = make_job(set, set.number == 0 ? 6 : 4);  // rank 0 had come further when the job was killed
    job->trainer->extend("look", Interval(1, "iteration"), [&](Trainer& trainer) {
      if (trainer.iteration() == common) expected = job->weights().clone();
    });
    EXPECT_EQ(job->trainer->run(), 0);
  }
  EXPECT_EQ(*checkpoint_iteration(find_checkpoints(set.out).front()), set.number == 0 ? 6 : 4);
  world()->barrier();
  const auto job = make_job(set, 8);
  EXPECT_TRUE(resume_replica_sets(*world(), *job->trainer));
  EXPECT_EQ(job->trainer->iteration(), common);
  EXPECT_TRUE(job->weights().equal(expected));
}

}  // namespace
}  // namespace mn

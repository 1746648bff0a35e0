// The checkpoints of an output folder: which are written, found and kept.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/format/commit.hpp>
#include <mn/checkpoint/format/storage.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/support/failing_calls.hpp"
#include "tests/train/checkpoint_helpers.hpp"

namespace mn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using toy::make_checkpoints;
using toy::on_rank_zero;
using toy::ToyJob;
using toy::world;

using CheckpointFolderTest = toy::CheckpointTest;

TEST_F(CheckpointFolderTest, WithoutACheckpointTrainingStartsAtTheBeginning) {
  ToyJob job(world(), options_);
  EXPECT_FALSE(job.trainer->resume("auto"));
  EXPECT_EQ(job.trainer->iteration(), 0);
}

TEST_F(CheckpointFolderTest, ADamagedNewestFallsBackToTheOneBefore) {
  ToyJob job(world(), options_);
  for (int i = 1; i <= 3; ++i) {
    job.trainer->extend("save" + std::to_string(i), {3.0 * i, "iteration"}, [&, i](Trainer& trainer) {
      if (trainer.iteration() == 3 * i) trainer.save(checkpoint_path(folder_.path(), 3 * i));
    });
  }
  EXPECT_EQ(job.trainer->run(), 0);
  if (world()->rank() == 0) {
    const auto shard = checkpoint_path(folder_.path(), 9) / checkpoint_shard_name(0, world()->size());
    std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 5);
  }
  world()->barrier();
  ToyJob next(world(), options_);
  EXPECT_TRUE(next.trainer->resume("auto"));
  EXPECT_EQ(next.trainer->iteration(), 6);
  EXPECT_THAT(resume_message(checkpoint_path(folder_.path(), 9).string(), options_), HasSubstr("step-00000009"));
}

/// On one rank alone; training has diverged, and the checkpoint before stays the newest.
TEST_F(CheckpointFolderTest, WhatIsNotANumberIsNotSaved) {
  const int last = world()->size() - 1;
  options_.optimizer.check_parameters = 0;  // which would find it first
  ToyJob job(world(), options_);
  job.trainer->save(checkpoint_path(folder_.path(), 0));
  if (world()->rank() == last) job.model->second->bias.detach()[1] = std::nan("");
  const std::string text = toy::message_of([&] { job.trainer->save(checkpoint_path(folder_.path(), 5)); });
  EXPECT_THAT(text, HasSubstr("is not written, because second.bias holds NaN or infinity on rank " +
                              std::to_string(last) + " after iteration 0"));
  job.trainer->extend(std::make_unique<extensions::Snapshot>(),
                      {.trigger = Interval(1, "iteration")});  // in the background
  EXPECT_THAT(toy::message_of([&] { static_cast<void>(job.trainer->run()); }), HasSubstr("is not written"));
  EXPECT_THAT(find_checkpoints(folder_.path()), ElementsAre(checkpoint_path(folder_.path(), 0)));
  ToyJob next(world(), options_);
  EXPECT_TRUE(next.trainer->resume("auto"));
}

TEST_F(CheckpointFolderTest, OnlyTheNewestAreKept) {
  ToyJob job(world(), options_);
  job.trainer->extend(std::make_unique<extensions::Snapshot>(2), {.trigger = Interval(2, "iteration")});
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_THAT(find_checkpoints(folder_.path()),
              ElementsAre(checkpoint_path(folder_.path(), 9), checkpoint_path(folder_.path(), 8)));
  EXPECT_THROW(extensions::Snapshot(0), UsageError);
}

/// A file server's error is one, and no checkpoint is taken for absent because of it.
TEST_F(CheckpointFolderTest, WhatCannotBeSeenIsNotAbsent) {
  make_checkpoints(folder_.path(), {100, 200, 300});
  const auto newest = checkpoint_path(folder_.path(), 300);
  const auto names_all = testing::SizeIs(3);
  for (const std::string& end : {"step-00000300/" + std::string(kCheckpointManifestName), std::string("/ckpt")}) {
    const auto says_so = testing::AllOf(HasSubstr(end), HasSubstr("Stale file handle"), testing::Not(HasSubstr("\n")));
    test::fail_looks(end, ESTALE);
    const std::string resumed = resume_message("auto", options_);
    EXPECT_THAT(resumed, says_so);
    EXPECT_TRUE(toy::same_on_all(resumed));
    on_rank_zero([&] {
      EXPECT_THAT(toy::message_of([&] { (void)find_checkpoints(folder_.path()); }), says_so);
      EXPECT_THAT(toy::message_of([&] { remove_old_checkpoints(folder_.path(), 1); }), says_so);
      EXPECT_THAT(toy::message_of([&] { set_checkpoints_aside(folder_.path(), 0, 1); }), says_so);
      if (end != "/ckpt") {
        EXPECT_THAT(toy::message_of([&] { (void)begin_save(newest); }), says_so);
      }
    });
    test::fail_looks("", 0);
    EXPECT_THAT(find_checkpoints(folder_.path()), names_all);
  }
  on_rank_zero([&] {  // of what is kept
    write_file(newest / kPinName, "");
    test::fail_looks(kPinName, EIO);
    EXPECT_NE(toy::message_of([&] { (void)is_kept(folder_.path(), newest); }), "no DataError");
    test::fail_looks("", 0);
    EXPECT_TRUE(is_kept(folder_.path(), newest));
  });
}

/// A shard that cannot be read may be whole: the older checkpoint is not taken for it.
TEST_F(CheckpointFolderTest, StorageThatFailsIsNotDamage) {
  options_.trainer.iterations = 4;
  ToyJob job(world(), options_);
  job.trainer->extend(std::make_unique<extensions::Snapshot>(), {.trigger = Interval(2, "iteration")});
  EXPECT_EQ(job.trainer->run(), 0);
  const int last = world()->size() - 1;
  const auto fail = [&](const std::string& name, bool forever) {
    if (world()->rank() == last) test::fail_opens(name, forever ? 1000 : 1, EIO);
  };
  const std::string shard = checkpoint_shard_name(last, world()->size());
  fail("step-00000004/" + shard, /*forever=*/true);
  const std::string said = resume_message("auto", options_);
  EXPECT_THAT(said, testing::AllOf(HasSubstr("step-00000004/" + shard), HasSubstr("Input/output error"),
                                   HasSubstr("(rank " + std::to_string(last) + ")"), HasSubstr("name another")));
  EXPECT_TRUE(toy::same_on_all(said));
  fail("step-00000004/" + shard, /*forever=*/false);  // once
  ToyJob next(world(), options_);
  EXPECT_TRUE(next.trainer->resume("auto"));
  EXPECT_EQ(next.trainer->iteration(), 4);
  test::fail_opens("", 0, 0);
  const auto manifest = checkpoint_path(folder_.path(), 4) / kCheckpointManifestName;
  on_rank_zero([&] {
    std::string body = nlohmann::json({{"format", "mn-checkpoint-4"}}).dump();
    write_file(manifest,
               R"({"crc32c":")" + to_hex(crc32c(std::as_bytes(std::span(body)))) + R"(","manifest":)" + body + "}\n");
  });
  EXPECT_THAT(resume_message("auto", options_), HasSubstr("\"mn-checkpoint-4\" of another version of mn"));
}

TEST_F(CheckpointFolderTest, CountsBelowZeroAreAnError) {
  const auto path = checkpoint_path(folder_.path(), 1);
  for (const char* count : {"iteration", "epoch"}) {
    ToyJob(world(), options_).trainer->save(path);
    toy::edit_checkpoint(path, [&](nlohmann::json& about) { about[count] = -5; });
    EXPECT_THAT(resume_message(path.string(), options_), HasSubstr("-5 is below 0"));
  }
}

TEST_F(CheckpointFolderTest, WhereEveryCheckpointIsDamagedTrainingDoesNotBeginAnew) {
  make_checkpoints(folder_.path(), {100, 200});
  const std::string said = resume_message("auto", options_);
  EXPECT_THAT(said, testing::AllOf(HasSubstr("none of the 2 checkpoints"), HasSubstr(folder_.path().string())));
  EXPECT_TRUE(toy::same_on_all(said));
  EXPECT_THAT(find_checkpoints(folder_.path()), testing::SizeIs(2));
}

/// Whatever ends the training.
TEST_F(CheckpointFolderTest, TheEndIsSavedOnce) {
  options_.trainer.iterations = 4;
  std::filesystem::file_time_type written;
  for (const int every : {3, 4}) {
    ToyJob job(world(), options_);
    job.trainer->extend(std::make_unique<extensions::Snapshot>(), {.trigger = Interval(every, "iteration")});
    EXPECT_EQ(job.trainer->resume("auto"), every == 4);
    EXPECT_EQ(job.trainer->run(), 0);
    const auto path = checkpoint_path(folder_.path(), 4) / kCheckpointManifestName;
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_TRUE(every == 3 || std::filesystem::last_write_time(path) == written) << "written again";
    written = std::filesystem::last_write_time(path);
  }
}

/// Every save fails from the second on, at the last rank's shard; training goes on, with the result that it has alone.
TEST_F(CheckpointFolderTest, TrainingGoesOnWhereASaveFails) {
  options_.trainer.iterations = 12;
  const auto train = [&](bool fails) {
    ToyJob job(world(), options_);
    job.trainer->extend(std::make_unique<extensions::Snapshot>(), {.trigger = Interval(2, "iteration")});
    job.trainer->extend("faults", {1, "iteration"}, [&](Trainer& trainer) {
      if (!fails || world()->rank() != world()->size() - 1) return;
      if (trainer.iteration() == 3) test::fail_call(folder_.path(), 0, test::CallFault::kError, ENOSPC, true);
      if (trainer.iteration() == 10) test::stop_failing();
    });
    EXPECT_EQ(job.trainer->run(), 0);
    return job.weights();
  };
  const at::Tensor undisturbed = train(false);
  on_rank_zero([&] { std::filesystem::remove_all(folder_.path() / "ckpt"); });
  EXPECT_TRUE(train(true).equal(undisturbed));
  EXPECT_FALSE(find_checkpoints(folder_.path()).empty());
  ToyJob next(world(), options_);
  EXPECT_TRUE(next.trainer->resume("auto"));
  EXPECT_EQ(next.trainer->iteration(), 12);
}

TEST(StorageTest, WhatGoesWithTheNodeIsNamed) {
  EXPECT_EQ(volatile_storage("/proc"), "");
  EXPECT_EQ(volatile_storage("/absent"), "");
  EXPECT_THAT(volatile_storage("/dev/shm"), testing::AnyOf("tmpfs", "", "overlay"));
  EXPECT_FALSE(is_disk("tmpfs"));
  EXPECT_TRUE(is_disk("ext4"));
}

}  // namespace
}  // namespace mn

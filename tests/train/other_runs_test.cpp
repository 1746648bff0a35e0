// Other files in an output folder: the checkpoints of other runs are renamed, and the files of other programs stay.
#include <chrono>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/format/commit.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/train/checkpoint_helpers.hpp"

namespace mn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using toy::make_checkpoint;
using toy::make_checkpoints;
using toy::on_rank_zero;
using toy::ToyJob;
using toy::world;

using OtherRunsTest = toy::CheckpointTest;

/// Path → content of the files and links in a folder.
std::map<std::string, std::string> tree_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> tree;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    std::string& content = tree[entry.path().lexically_relative(folder).string()];
    if (entry.is_symlink()) {
      content = std::filesystem::read_symlink(entry.path()).string();
    } else if (entry.is_regular_file()) {
      content = read_file(entry.path());
    }
  }
  return tree;
}

/// A new run in the folder of one that came further: what it writes is the newest, and nothing is deleted.
TEST_F(OtherRunsTest, CheckpointsOfAnotherRunAreSetAside) {
  make_checkpoints(folder_.path(), {1, 5, 100, 200, 300});
  ToyJob job(world(), options_);
  job.trainer->extend(std::make_unique<extensions::Snapshot>(2), {.trigger = Interval(4, "iteration")});
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_THAT(find_checkpoints(folder_.path()),
              ElementsAre(checkpoint_path(folder_.path(), 9), checkpoint_path(folder_.path(), 8)));
  for (const char* name : {"001", "005", "100", "200", "300"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / "ckpt" / (std::string("old_step-00000") + name))) << name;
  }
  ToyJob next(world(), options_);
  EXPECT_TRUE(next.trainer->resume("auto"));
  EXPECT_EQ(next.trainer->iteration(), 9);
}

/// --keep counts the run's own, also beside those that it goes on from in another folder.
TEST_F(OtherRunsTest, ARunThatBeginsElsewhereKeepsWhatIsThere) {
  const auto other = folder_.path() / "other";
  toy::ToyOptions before = options_;
  before.trainer.iterations = 4;
  before.trainer.out = other;
  ToyJob first(world(), before);
  first.trainer->extend(std::make_unique<extensions::Snapshot>(), {.trigger = Interval(2, "iteration")});
  EXPECT_EQ(first.trainer->run(), 0);
  make_checkpoints(folder_.path(), {2, 4, 9});
  options_.trainer.iterations = 6;
  ToyJob job(world(), options_);
  job.trainer->extend(std::make_unique<extensions::Snapshot>(1), {.trigger = Interval(1, "iteration")});
  EXPECT_TRUE(job.trainer->resume((other / "ckpt" / "step-00000004").string()));
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_THAT(find_checkpoints(folder_.path()), ElementsAre(checkpoint_path(folder_.path(), 6)));
  EXPECT_THAT(find_checkpoints(other), testing::SizeIs(2));
  for (const char* name : {"2", "4", "9"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / "ckpt" / (std::string("old_step-0000000") + name))) << name;
  }
}

/// ChainerMN's snapshots, folders of other programs that look alike, links.
TEST_F(OtherRunsTest, WhatIsNotOfACheckpointStaysAsItIs) {
  const auto& out = folder_.path();
  const auto elsewhere = out / "elsewhere";
  std::map<std::string, std::string> before;
  on_rank_zero([&] {
    for (const char* name : {"snapshot_iter_100", "snapshot_iter_200", "snapshot_iter_900", ".notes.tmp"}) {
      write_file(out / name, name);
      std::filesystem::last_write_time(out / name,
                                       std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
    }
    for (const char* name : {"step-3", "step-00000004", "step--0000005", "step-00000006", "step-00000007"}) {
      std::filesystem::create_directories(out / "ckpt" / name);
    }
    write_file(out / "ckpt" / "step-3" / "manifest.json", "{}");
    write_file(out / "ckpt" / "step-00000004" / "manifest.json", "{}");
    write_file(out / "ckpt" / "step--0000005" / checkpoint_shard_name(0, 1), "");
    write_file(out / "ckpt" / "step-00000006" / "model.bin", "weights");
    write_file(out / "ckpt" / "step-00000007" / "shard-1.safetensors", "weights");
    write_file(out / "snapshot_best", "of another");
    make_checkpoint(elsewhere, "of another");
    std::filesystem::create_directory_symlink(elsewhere, checkpoint_path(out, 800));
    before = tree_of(out);
    EXPECT_THAT(toy::message_of([&] { mark_best(out, checkpoint_path(out, 1)); }),
                HasSubstr("snapshot_best is not a link that mn has made"));
  });
  ToyJob job(world(), options_);
  job.trainer->extend(std::make_unique<extensions::Snapshot>(1), {.trigger = Interval(1, "iteration")});
  EXPECT_EQ(job.trainer->run(), 0);
  on_rank_zero([&] {
    EXPECT_TRUE(is_own(checkpoint_path(out, 9)));
    const auto after = tree_of(out);
    for (const auto& [path, content] : before) {
      EXPECT_TRUE(after.contains(path) && after.at(path) == content) << path;
    }
  });
}

/// Neither by a run that goes on from an earlier checkpoint, nor by the next; the link to the best follows.
TEST_F(OtherRunsTest, WhatIsSetAsideIsNotLost) {
  const auto& out = folder_.path();
  const auto manifest_of = [&](const std::string& name) { return read_file(out / name / kCheckpointManifestName); };
  make_checkpoints(out, {1}, "good");
  for (const std::string run : {"first", "second", "third"}) {
    make_checkpoints(out, {2, 3, 4}, run);
    on_rank_zero([&] {
      if (run == "first") write_file(checkpoint_path(out, 3) / kPinName, "");
      mark_best(out, checkpoint_path(out, 4));
      set_checkpoints_aside(out, 1, 2);
      EXPECT_EQ(manifest_of("snapshot_best"), run);
    });
  }
  on_rank_zero([&] {
    EXPECT_THAT(find_checkpoints(out), ElementsAre(checkpoint_path(out, 1)));
    EXPECT_EQ(manifest_of("ckpt/old_step-00000003"), "first");
    EXPECT_EQ(manifest_of("ckpt/old_step-00000003.2"), "second");
    EXPECT_EQ(manifest_of("ckpt/old_step-00000004.3"), "third");
    make_checkpoint(checkpoint_path(out, 2), "pinned");
    set_checkpoints_aside(out, 2, 2);
    EXPECT_EQ(manifest_of("ckpt/step-00000002"), "pinned") << "the new one replaces it";
    write_file(checkpoint_path(out, 2) / kPinName, "");
    set_checkpoints_aside(out, 2, 2);
    EXPECT_EQ(manifest_of("ckpt/old_step-00000002.4"), "pinned") << "a pinned one is not replaced";
    restore_best(out, 1, 1);
    EXPECT_EQ(manifest_of("snapshot_best"), "good");
    restore_best(out, 3, 3);
    EXPECT_EQ(manifest_of("snapshot_best"), "good") << "that of 3 was not saved";
    restore_best(out, 0, 0);
    EXPECT_FALSE(std::filesystem::is_symlink(out / "snapshot_best")) << "of a run that does not go on";
  });
}

}  // namespace
}  // namespace mn

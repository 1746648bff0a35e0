// Checkpoints by themselves: what ranks write, read and hold.
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <mn/checkpoint/background_save.hpp>
#include <mn/checkpoint/checkpoint_reader.hpp>
#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/not_finite.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>

#include "tests/support/failing_calls.hpp"
#include "tests/support/resident_bytes.hpp"
#include "tests/train/checkpoint_helpers.hpp"

namespace mn {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using toy::message_of;
using toy::on_rank_zero;
using toy::TestFolder;
using toy::world;

/// The forms of a checkpoint's shared tensors, filled.
NamedTensors read_shared(CheckpointReader& reader) {
  NamedTensors tensors;
  for (const auto& [name, form] : reader.shared("")) {
    if (!name.starts_with("rank.")) tensors.emplace_back(name, torch::empty(form.shape, form.dtype));
  }
  reader.read("", tensors);
  return tensors;
}

NamedTensors uneven_tensors() {
  torch::manual_seed(3);
  return {{"model/wide", torch::randn({7, 11}, torch::kDouble)},
          {"model/half", torch::randn({31}).to(torch::kHalf)},
          {"model/turned", torch::randn({5, 9}).t()},
          {"model/scalar", torch::tensor(7.5F)},
          {"model/empty", torch::empty({0, 3})},
          {"model/flags", torch::arange(13) % 2 == 0},
          {"model/bytes", torch::arange(101, torch::kByte)}};
}

/// Cut into slices of few bytes, so that all ranks write some.
TEST(CheckpointTest, AnyNumberOfRanksReadsWhatAnyNumberHasWritten) {
  const TestFolder folder(world());
  const NamedTensors written = uneven_tensors();
  for (int writers = 1; writers <= world()->size(); ++writers) {
    const auto path = folder.path() / ("of" + std::to_string(writers));
    const auto saving = world()->split(world()->rank() < writers ? 0 : -1, 0);
    if (saving) {
      Checkpoint checkpoint{{{"writers", writers}}, written, {}, {{"mine", torch::tensor({saving->rank()})}}};
      save_checkpoint(*saving, path, checkpoint, 64);
    }
    world()->barrier();
    for (int readers = 1; readers <= world()->size(); ++readers) {
      const auto loading = world()->split(world()->rank() < readers ? 0 : -1, 0);
      if (!loading) continue;
      const auto reader = CheckpointReader::open(*loading, path.string(), folder.path());
      EXPECT_EQ(reader->about(), json({{"writers", writers}}));
      const NamedTensors read = read_shared(*reader);
      EXPECT_EQ(read.size(), written.size());
      const std::map<std::string, at::Tensor> by_name(read.begin(), read.end());
      for (const auto& [name, tensor] : written) EXPECT_TRUE(by_name.at(name).equal(tensor)) << name;
      const NamedTensors own = reader->own();
      EXPECT_EQ(own.size(), readers == writers ? 1U : 0U);
      for (const auto& [name, tensor] : own) EXPECT_EQ(tensor.item<int>(), loading->rank());
    }
    world()->barrier();
  }
}

TEST(CheckpointTest, MemoryIsThatOfTheTensorsOnEveryRank) {
  constexpr std::int64_t kBytes = 48 << 20;
  const TestFolder folder(world());
  const auto path = folder.path() / "c";
  const at::Tensor shared = torch::full({kBytes / 4}, 2.5F), own = torch::full({kBytes}, world()->rank(), torch::kByte);
  world()->barrier();
  std::int64_t before = test::resident_bytes();
  bool can_measure = test::reset_peak_bytes();
  save_checkpoint(*world(), path, {{}, {{"shared", shared}}, {}, {{"own", own}}});
  if (can_measure) {
    EXPECT_LE(test::peak_bytes() - before, kBytes / 2);
  }
  at::Tensor target = torch::zeros({kBytes / 4});
  before = test::resident_bytes();
  can_measure = test::reset_peak_bytes();
  const auto reader = CheckpointReader::open(*world(), path.string(), folder.path());
  reader->read("", {{"shared", target}});
  EXPECT_TRUE(reader->own().front().second.equal(own));
  if (can_measure) {
    EXPECT_LE(test::peak_bytes() - before, kBytes * 3 / 2) << "its own tensor, and room to check it";
  }
  EXPECT_TRUE(target.equal(shared));
}

/// A copy would need the memory that sharding saves.
TEST(CheckpointTest, PiecesOnTheHostAreSavedWithoutACopy) {
  constexpr std::int64_t kCount = 12 << 20;
  const TestFolder folder(world());
  const auto path = folder.path() / "c";
  const auto begin = static_cast<std::uint64_t>(world()->rank() * kCount);
  const at::Tensor own = torch::full({kCount}, world()->rank() + 1.0F);
  Checkpoint checkpoint;
  checkpoint.pieces = {{"sharded", {world()->size() * kCount}, begin, own}};
  world()->barrier();
  malloc_trim(0);  // what earlier tests have left would serve
  const std::int64_t before = test::resident_bytes();
  const bool can_measure = test::reset_peak_bytes();
  BackgroundSave saving;
  saving.prepare(*world(), checkpoint);
  saving.begin(*world(), path, checkpoint);
  own.zero_();  // as an update after the call would
  while (!saving.advance()) continue;
  if (can_measure) {
    EXPECT_LE(test::peak_bytes() - before, kCount * 4 / 2);
  }
  CheckpointReader::open(*world(), path.string(), folder.path())->read("", checkpoint.pieces);
  EXPECT_TRUE(own.eq(world()->rank() + 1.0F).all().item<bool>());
}

/// The save holds what the tensors held when it began.
TEST(CheckpointTest, UpdatesBesideASaveDoNotLeakIntoIt) {
  const TestFolder folder(world());
  BackgroundSave saving;
  for (int round = 0; round < 3; ++round) {
    const auto path = folder.path() / std::to_string(round);
    at::Tensor shared = torch::full({1 << 20}, round), own = torch::full({3}, round);
    saving.begin(*world(), path, {{}, {{"shared", shared}}, {}, {{"own", own}}});
    shared.fill_(-1);
    own.fill_(-1);
    EXPECT_TRUE(saving.is_under_way());
    EXPECT_FALSE(saving.advance()) << "the commit is in the background, too";
    while (!saving.advance()) continue;
    EXPECT_FALSE(saving.is_under_way());
    const auto reader = CheckpointReader::open(*world(), path.string(), folder.path());
    EXPECT_TRUE(read_shared(*reader).front().second.equal(torch::full({1 << 20}, round)));
    EXPECT_TRUE(reader->own().front().second.equal(torch::full({3}, round)));
  }
}

/// Without it the first copy gets its memory by itself.
TEST(CheckpointTest, MemoryMadeBeforehandServesTheFirstCopy) {
  constexpr std::int64_t kBytes = 48 << 20;
  const TestFolder folder(world());
  const Checkpoint checkpoint{{}, {}, {}, {{"own", torch::full({kBytes}, world()->rank() + 1, torch::kByte)}}};
  for (const bool beforehand : {false, true}) {
    BackgroundSave saving;
    malloc_trim(0);  // what earlier tests have left would serve
    if (beforehand) {
      saving.prepare(*world(), checkpoint);
      while (!saving.is_ready()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::int64_t before = test::resident_bytes();
    const bool can_measure = test::reset_peak_bytes();
    saving.begin(*world(), folder.path() / (beforehand ? "beforehand" : "at once"), checkpoint);
    const std::int64_t more = test::peak_bytes() - before;
    if (can_measure) {
      EXPECT_EQ(more < kBytes / 4, beforehand) << more;
    }
    while (!saving.advance()) continue;
  }
}

/// It is not complete, too small, or being made a second time when the save begins.
TEST(CheckpointTest, ASaveNeedsNoMemoryMadeBeforehand) {
  const TestFolder folder(world());
  BackgroundSave saving;
  for (const std::int64_t prepared : {8 << 20, 100, 12 << 20}) {
    const auto path = folder.path() / std::to_string(prepared);
    saving.prepare(*world(), {{}, {}, {}, {{"own", torch::empty({prepared}, torch::kByte)}}});
    saving.prepare(*world(), {{}, {}, {}, {{"own", torch::empty({prepared}, torch::kByte)}}});
    const at::Tensor own = torch::arange(10 << 20, torch::kByte) + world()->rank();
    saving.begin(*world(), path, {{}, {}, {}, {{"own", own}}});
    while (!saving.advance()) continue;
    EXPECT_TRUE(CheckpointReader::open(*world(), path.string(), folder.path())->own().front().second.equal(own));
  }
}

TEST(CheckpointTest, AnObjectionOnOneRankIsEveryRanksError) {
  const TestFolder folder(world());
  const int last = world()->size() - 1;
  Checkpoint checkpoint{{}, {{"shared", torch::ones({3})}}, {}, {}};
  checkpoint.objection = world()->rank() == last ? "no" : "";
  EXPECT_EQ(message_of([&] { save_checkpoint(*world(), folder.path() / "c", checkpoint); }), "no");
  BackgroundSave saving;
  saving.begin(*world(), folder.path() / "c", checkpoint);
  EXPECT_THROW(while (!saving.advance()) continue, SaveRefused);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "c"));
}

TEST(CheckpointTest, WhatIsNotANumberIsFoundInEveryType) {
  on_rank_zero([&] {
    for (const auto type : {torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kDouble}) {
      for (const std::int64_t size : {1, 7, 1000}) {
        at::Tensor tensor = torch::full({size}, -60000.0, type);
        EXPECT_FALSE(holds_nan(tensor, true));
        tensor[size - 1] = -INFINITY;
        EXPECT_TRUE(holds_nan(tensor, true));
        EXPECT_FALSE(holds_nan(tensor, false));
        tensor[size / 2] = -NAN;
        EXPECT_TRUE(holds_nan(tensor, true));
        EXPECT_TRUE(holds_nan(tensor, false));
      }
    }
    const at::Tensor every_second = torch::tensor({1.0F, NAN, 2.0F, NAN}).slice(0, 0, 4, 2);
    EXPECT_FALSE(holds_nan(every_second, true));
    EXPECT_FALSE(holds_nan(torch::full({3}, -1), true)) << "integers";
  });
}

TEST(CheckpointTest, AFolderThatCannotBeMadeIsTheSameErrorOnEveryRank) {
  const TestFolder folder(world());
  on_rank_zero([&] { write_file(folder.path() / "file", ""); });
  const auto path = folder.path() / "file" / "c";
  const Checkpoint checkpoint{{}, {{"a", torch::ones({5})}}, {}, {}};
  EXPECT_THAT(message_of([&] { save_checkpoint(*world(), path, checkpoint); }), HasSubstr("file"));
  save_checkpoint(*world(), folder.path() / "c", checkpoint);
}

/// Each call of each rank in turn.
TEST(CheckpointTest, AFailureOnOneRankIsOneErrorOnAll) {
  const TestFolder folder(world());
  const auto path = checkpoint_path(folder.path(), 2);
  const Checkpoint checkpoint{{}, {{"a", torch::ones({500})}}, {}, {{"own", torch::ones({5})}}};
  save_checkpoint(*world(), checkpoint_path(folder.path(), 1), checkpoint);
  for (int rank = 0; rank < world()->size(); ++rank) {
    for (std::int64_t at = 0;; ++at) {
      if (world()->rank() == rank) test::fail_call(folder.path(), at, test::CallFault::kError, ENOSPC);
      const std::string said = message_of([&] { save_checkpoint(*world(), path, checkpoint, 64); });
      std::int64_t calls = world()->rank() == rank ? test::stop_failing() : 0;
      world()->bcast(std::span(&calls, 1), rank);
      EXPECT_TRUE(toy::same_on_all(said));
      on_rank_zero([&] {
        const auto newest = find_checkpoints(folder.path()).at(0);
        (void)SavedCheckpoint(newest).manifest();
        std::filesystem::remove_all(path);
      });
      if (calls <= at) {
        EXPECT_EQ(said, "no DataError");
        break;
      }
    }
  }
}

}  // namespace
}  // namespace mn

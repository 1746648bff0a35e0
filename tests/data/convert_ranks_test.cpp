// Several processes convert to equal shards as a single process.
#include <algorithm>
#include <atomic>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include <mn/core/error.hpp>

#include "data/rank_board.hpp"
#include "images_fixture.hpp"
#include "ranks_fixture.hpp"

namespace mn::data {
namespace {

using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

class RanksOfImages : public Images {
 protected:
  ImageConversion convert_as(const JobRank& me) {
    auto own = options();
    own.output.me = me;
    return convert_images(source_, own);
  }
  std::vector<ImageConversion> convert_by(int size) {
    return by_ranks(size, [&](const JobRank& me) { return convert_as(me); });
  }
  /// All files that one process makes; the folder is then gone.
  std::map<std::string, std::string> whole() {
    convert();
    auto files = files_below(out_);
    fs::remove_all(out_);
    return files;
  }
};

TEST_F(RanksOfImages, AnyNumberMakesTheSameBits) {
  const auto expected = whole();
  EXPECT_EQ(expected.count(kDatasetManifest), 1u);
  for (const int size : {2, 3, 4, 20}) {  // the last: more than shards
    const auto results = convert_by(size);
    EXPECT_GE(std::ranges::count_if(results, [](const auto& result) { return result.conversion.complete; }), 1);
    EXPECT_EQ(files_below(out_), expected) << size;
    fs::remove_all(out_);
  }
}

TEST_F(RanksOfImages, TheLastToFinishWritesTheManifest) {
  const auto expected = whole();
  const auto first = convert_as({0, 3, "a"});
  EXPECT_FALSE(first.conversion.complete);
  EXPECT_FALSE(convert_as({2, 3, "a"}).conversion.complete);
  EXPECT_FALSE(fs::exists(out_ / kDatasetManifest));
  const auto last = convert_as({1, 3, "a"});
  EXPECT_TRUE(last.conversion.complete);
  EXPECT_EQ(last.conversion.kept_shards, 0);
  EXPECT_EQ(labels_by_key(last.table()).size(), 40u);
  EXPECT_EQ(files_below(out_), expected);
}

TEST_F(RanksOfImages, ALostRanksPartIsMadeByTheNextRun) {
  const auto expected = whole();
  convert_as({0, 3, "a"});
  convert_as({2, 3, "a"});
  // Another job: the new ranks ignore the old signs.
  EXPECT_FALSE(convert_as({0, 2, "b"}).conversion.complete);
  const auto last = convert_as({1, 2, "b"});
  EXPECT_TRUE(last.conversion.complete);
  EXPECT_GT(last.conversion.kept_shards, 1);
  EXPECT_EQ(files_below(out_), expected);
}

TEST_F(RanksOfImages, SignsOfAnotherJobOfTheSameSizeDoNotCount) {
  convert_as({0, 2, "a"});
  EXPECT_FALSE(convert_as({1, 2, "b"}).conversion.complete);
  EXPECT_FALSE(fs::exists(out_ / kDatasetManifest));
  EXPECT_TRUE(convert_as({0, 2, "b"}).conversion.complete);
}

TEST_F(RanksOfImages, AFailedRankLeavesNoManifest) {
  const auto expected = whole();
  const auto errors = by_ranks(3, [&](const JobRank& me) {
    auto own = options();
    own.output.me = me;
    own.output.progress = [&](std::int64_t done, std::int64_t) {
      if (me.rank == 1 && done == 3) throw DataError("killed");
    };
    return message_of<DataError>([&] { convert_images(source_, own); });
  });
  EXPECT_THAT(errors, testing::ElementsAre("", "killed", ""));
  EXPECT_FALSE(fs::exists(out_ / kDatasetManifest));
  EXPECT_TRUE(convert().conversion.complete);
  EXPECT_EQ(files_below(out_), expected);
}

TEST_F(RanksOfImages, WhatRankZeroCannotPlanFailsOnAll) {
  fs::create_directories(source_ / "c9");
  const auto errors = by_ranks(3, [&](const JobRank& me) {
    try {
      convert_as(me);
    } catch (const Error& error) {
      EXPECT_EQ(error.on_all_ranks(), me.rank > 0) << "rank 0 speaks";
      EXPECT_EQ(error.exit_code(), 1);
      return std::string(error.what());
    }
    return std::string();
  });
  for (const std::string& error : errors) EXPECT_THAT(error, AllOf(HasSubstr("class c9"), HasSubstr("empty")));
  fs::remove(source_ / "c9");
  EXPECT_GE(convert_by(2).size(), 2u) << "what is left of the failure is in nobody's way";
  EXPECT_TRUE(fs::exists(out_ / kDatasetManifest));
}

TEST_F(RanksOfImages, AnotherJobIsKeptOut) {
  std::string second, alone;
  auto first = options();
  first.output.me = {0, 2, "a"};
  first.output.progress = [&](std::int64_t done, std::int64_t) {
    if (done > 1) return;
    second = message_of<UsageError>([&] { convert_as({0, 2, "b"}); });
    alone = message_of<UsageError>([&] { convert(); });
  };
  convert_images(source_, first);
  EXPECT_THAT(second, HasSubstr("another mnshard"));
  EXPECT_THAT(alone, HasSubstr("another mnshard"));
  EXPECT_TRUE(convert_as({1, 2, "a"}).conversion.complete);
}

TEST_F(RanksOfImages, ADatasetThatIsThereIsAnErrorOnEveryRank) {
  convert();
  const auto before = files_below(out_);
  const auto errors = by_ranks(3, [&](const JobRank& me) { return message_of<UsageError>([&] { convert_as(me); }); });
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("holds a dataset already"));
  EXPECT_EQ(files_below(out_), before);
}

TEST_F(RanksOfImages, WhatWasKilledAfterTheManifestIsCompleted) {
  const auto expected = whole();
  convert_but_for_the_manifest(options());
  for (const auto& [name, content] : expected) test::write_text(out_ / name, content);
  for (const auto& result : convert_by(3)) EXPECT_LE(result.conversion.tables.size(), 1u);
  EXPECT_EQ(files_below(out_), expected);
  // As its end is killed: the scratch folder is removed, the mark is not.
  fs::remove_all(out_);
  convert_but_for_the_manifest(options());
  for (const auto& [name, content] : expected) test::write_text(out_ / name, content);
  fs::remove_all(out_ / ".conversion");
  EXPECT_EQ(labels_by_key(convert().table()).size(), 40u);
  EXPECT_EQ(files_below(out_), expected);
}

TEST(RankBoardTest, ASilentRankZeroIsNotAwaitedForEver) {
  const test::TemporaryFolder folder;
  using std::chrono::milliseconds;
  const Patience patience{.until_begun = milliseconds(50), .since_sign = milliseconds(50)};
  RankBoard board(folder.path(), {1, 2, "a"}, patience);
  EXPECT_THAT(message_of<DataError>([&] { board.follow(0, [] { return false; }); }),
              HasSubstr("rank 0 of 2 gave no sign"));
  test::write_text(folder.path() / "rank-0", R"({"job": "a", "size": 2, "state": "planning", "beat": 0})");
  EXPECT_THAT(message_of<DataError>([&] { board.follow(0, [] { return false; }); }),
              HasSubstr("rank 0 of 2 gave no sign"));
}

/// The error of rank 1 of 2 after the failure of rank 0, the leader.
bool rank_one_is_silent(const std::function<void(RankBoard&)>& part) {
  const test::TemporaryFolder folder;
  RankBoard zero(folder.path(), {0, 2, "a"}), one(folder.path(), {1, 2, "a"});
  zero.lead([] {});
  EXPECT_THROW(zero.work_together([] { throw DataError("the disk is full"); }), DataError);
  try {
    part(one);
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the disk is full");
    return error.on_all_ranks();
  }
  return false;
}

TEST(RankBoardTest, WhatFollowsFromAnothersFailureIsNotSaid) {
  const auto fail = [] { throw DataError("rank 0 has removed the file"); };
  EXPECT_TRUE(rank_one_is_silent([&](RankBoard& one) { one.work_together(fail); }));
  EXPECT_TRUE(rank_one_is_silent([](RankBoard& late) { late.follow(0, [&] { return late.has_led(); }); }));
}

TEST(RankBoardTest, OfFailuresRankZeroSaysTheFirst) {
  const test::TemporaryFolder folder;
  const Patience patience{.until_begun = std::chrono::milliseconds(50), .since_sign = std::chrono::milliseconds(50)};
  std::vector<RankBoard> boards;
  for (int rank = 0; rank < 3; ++rank) boards.emplace_back(folder.path(), JobRank{rank, 3, "a"}, patience);
  for (const int rank : {2, 1}) {
    try {
      boards[rank].work_together([&] { throw DataError(rank == 2 ? "the disk is full" : "a file is gone"); });
    } catch (const Error& error) {
      EXPECT_TRUE(error.on_all_ranks()) << rank;
    }
  }
  EXPECT_EQ(message_of<Error>([&] { boards[0].work_together([] {}); }), "the disk is full");
}

TEST(RankBoardTest, OneOfThoseThatFinishTogetherIsTheLast) {
  const test::TemporaryFolder folder;
  for (int repeat = 0; repeat < 50; ++repeat) {
    constexpr int kRanks = 4;
    std::vector<RankBoard> boards;
    for (int rank = 0; rank < kRanks; ++rank) boards.emplace_back(folder.path(), JobRank{rank, kRanks, "a"});
    std::latch begin(kRanks);
    std::atomic<int> last = 0;
    {
      std::vector<std::jthread> threads;
      for (RankBoard& board : boards) {
        threads.emplace_back([&] {
          begin.arrive_and_wait();
          if (board.finish(0)) ++last;
        });
      }
    }
    ASSERT_EQ(last, 1);
  }
}

}  // namespace
}  // namespace mn::data

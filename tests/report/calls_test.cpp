// Who waits for whom, from records written by hand.
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/report/calls.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn::report {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

class CallsTest : public testing::Test {
 protected:
  CallsTest() { fs::create_directories(calls()); }
  [[nodiscard]] fs::path calls() const { return folder_.path() / "calls"; }
  void write(int rank, const std::string& lines) const {
    std::ofstream(calls() / ("rank-000" + std::to_string(rank) + ".jsonl"))
        << R"({"rank":)" << rank << R"(,"size":3,"host":"n1","pid":1,"reason":"SIGUSR2","written_us":9000000})"
        << "\n"
        << lines;
  }
  /// A call of the group of all ranks.
  [[nodiscard]] static std::string call(int rank, const std::string& name, int number, bool running, int count = 8) {
    return R"({"record":)" + std::to_string(number) + R"(,"state":")" + (running ? "running" : "returned") +
           R"(","call":")" + name + R"(","number":)" + std::to_string(number) + R"(,"leader":0,"ordinal":1,"rank":)" +
           std::to_string(rank) + R"(,"size":3,"count":)" + std::to_string(count) +
           R"(,"dtype":"float32","peer":-1,"thread":1,"started_us":4500000})" + "\n";
  }
  [[nodiscard]] std::string described() const { return describe_calls(folder_.path()); }

  test::TemporaryFolder folder_;
};

TEST_F(CallsTest, NamesTheRankThatLacksACall) {
  for (const int rank : {0, 2}) write(rank, call(rank, "bcast", 6, false) + call(rank, "allreduce", 7, true));
  write(1, call(1, "bcast", 6, false));
  EXPECT_EQ(
      described(),
      "ranks 0, 2 wait in allreduce (call 7, 8 float32) for 4.5 s; rank 1 lacks it: its last call, bcast (call 6, "
      "8 float32), has ended\n");
}

TEST_F(CallsTest, NamesARankWithoutARecord) {
  for (const int rank : {0, 1}) write(rank, call(rank, "barrier", 7, true, 0));
  EXPECT_EQ(described(), "ranks 0, 1 wait in barrier (call 7) for 4.5 s; rank 2 of its 3 left no record\n");
}

TEST_F(CallsTest, ARankKilledBeforeItsFirstLineHasNoRecord) {
  for (const int rank : {0, 1}) write(rank, call(rank, "barrier", 7, true, 0));
  for (const std::string text : {"", R"({"rank":2,"si)"}) {
    std::ofstream(calls() / "rank-0002.jsonl") << text;
    EXPECT_THAT(described(), HasSubstr("rank 2 of its 3 left no record"));
  }
  for (const char* const rank : {"0", "1"}) std::ofstream(calls() / ("rank-000" + std::string(rank) + ".jsonl"));
  EXPECT_THAT([&] { static_cast<void>(described()); }, ThrowsMessage<DataError>(HasSubstr("are empty")));
}

TEST_F(CallsTest, NamesCallsThatDiffer) {
  for (const int rank : {0, 1}) write(rank, call(rank, "allreduce", 7, true));
  write(2, call(2, "allreduce", 7, true, 9));
  EXPECT_EQ(
      described(),
      "ranks 0, 1 wait in allreduce (call 7, 8 float32); rank 2 waits in allreduce (call 7, 9 float32) for 4.5 s\n");
}

TEST_F(CallsTest, SaysWhatTheOthersDoInstead) {
  write(0, call(0, "allreduce", 7, true));
  write(1, call(1, "allreduce", 7, true));
  const std::string message =
      R"({"record":9,"state":"running","call":"recv","number":0,"leader":0,"ordinal":1,"rank":2,"size":3,"count":4,)"
      R"("dtype":"int64","peer":0,"thread":1,"started_us":8000000})";
  write(2, message + "\n");
  EXPECT_EQ(
      described(),
      "rank 2 waits in recv (a message, the other side is its rank 0, 4 int64) for 1.0 s\n"
      "ranks 0, 1 wait in allreduce (call 7, 8 float32) for 4.5 s; rank 2 lacks it: it is in recv (a message, the "
      "other side is its rank 0, 4 int64)\n");
}

/// A rank whose record of a call is gone has left the call.
TEST_F(CallsTest, DoesNotNameARankThatIsFurther) {
  write(0, call(0, "allreduce", 7, true));
  write(1, call(1, "bcast", 300, false));
  write(2, call(2, "bcast", 6, false));
  EXPECT_EQ(described(),
            "rank 0 waits in allreduce (call 7, 8 float32) for 4.5 s; rank 2 lacks it: its last call, bcast (call 6, "
            "8 float32), has ended\n");
}

TEST_F(CallsTest, NamesAFewOfManyRanks) {
  std::string lines = call(0, "barrier", 7, true, 0);
  for (std::size_t at = 0; (at = lines.find("\"size\":3", at)) != lines.npos; ++at) lines.replace(at, 8, "\"size\":99");
  write(0, lines);
  EXPECT_THAT(described(), HasSubstr("; ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 and 82 more of its "
                                     "99 left no record"));
}

TEST_F(CallsTest, SaysThatNobodyWaits) {
  write(0, call(0, "allreduce", 7, false));
  write(1, "");
  EXPECT_EQ(described(), "no rank is in a call; rank 2 left no record\n");
}

TEST_F(CallsTest, TakesALineThatWasCutOffAndNoOtherDamage) {
  write(0, call(0, "allreduce", 7, true) + R"({"record":8,"st)");
  EXPECT_THAT(described(), HasSubstr("rank 0 waits in allreduce"));
  write(0, "{\"record\":8,\"st\n" + call(0, "allreduce", 7, true));
  EXPECT_THAT([&] { static_cast<void>(described()); }, ThrowsMessage<DataError>(HasSubstr("rank-0000.jsonl, line 2")));
}

TEST_F(CallsTest, SaysWhereNothingWasWritten) {
  EXPECT_THAT([&] { static_cast<void>(described()); }, ThrowsMessage<DataError>(HasSubstr("rank-*.jsonl")));
}

}  // namespace
}  // namespace mn::report

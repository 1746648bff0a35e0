// The ring of the last calls, and its files.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/core/json.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using nlohmann::json;

constexpr GroupName kGroup{4, 2, 1, 3};

class FlightRecorder : public ::testing::Test {
 protected:
  FlightRecorder() {
    name_calls_writer(3, 5, "n1");
    set_calls_folder((folder_.path() / "calls").string());
  }
  ~FlightRecorder() override { set_calls_folder(""); }

  /// The lines of write_calls(); calls in the order of their begins.
  [[nodiscard]] std::vector<json> written() const {
    write_calls("a test");
    std::ifstream file(folder_.path() / "calls" / "rank-0003.jsonl");
    std::vector<json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
    if (!lines.empty())
      std::ranges::sort(lines.begin() + 1, lines.end(), {},
                        [](const json& each) { return each.at("record").get<int>(); });
    return lines;
  }

  test::TemporaryFolder folder_;
};

TEST_F(FlightRecorder, WritesWhoAndWhat) {
  { const RecordedCall ended(kGroup, {"bcast", 6, 10, DType::kInt64}); }
  const RecordedCall running(kGroup, {"allreduce", 7, 1000, DType::kFloat32});
  try {
    const RecordedCall failed(kGroup, {"recv", 0, 5, DType::kUInt8, 2});
    throw 1;
  } catch (int) {
  }
  const auto lines = written();
  ASSERT_GE(lines.size(), 4U);
  EXPECT_EQ(lines[0].at("rank"), 3);
  EXPECT_EQ(lines[0].at("size"), 5);
  EXPECT_EQ(lines[0].at("host"), "n1");
  EXPECT_EQ(lines[0].at("reason"), "a test");
  const json& bcast = lines.end()[-3];
  const json& allreduce = lines.end()[-2];
  const json& recv = lines.end()[-1];
  EXPECT_EQ(bcast.at("call"), "bcast");
  EXPECT_EQ(bcast.at("state"), "returned");
  EXPECT_LE(bcast.at("started_us"), bcast.at("ended_us"));
  EXPECT_EQ(allreduce.at("state"), "running");
  EXPECT_FALSE(allreduce.contains("ended_us"));
  EXPECT_EQ(allreduce.at("number"), 7);
  EXPECT_EQ(allreduce.at("count"), 1000);
  EXPECT_EQ(allreduce.at("dtype"), "float32");
  EXPECT_EQ(allreduce.at("leader"), 4);
  EXPECT_EQ(allreduce.at("ordinal"), 2);
  EXPECT_EQ(allreduce.at("rank"), 1);
  EXPECT_EQ(allreduce.at("size"), 3);
  EXPECT_EQ(recv.at("state"), "failed");
  EXPECT_EQ(recv.at("peer"), 2);
  EXPECT_EQ(recv.at("thread"), allreduce.at("thread"));
}

/// The ring has 256 slots: for running calls, and for the last of the ended ones.
TEST_F(FlightRecorder, KeepsTheLastCallsAndThoseThatRun) {
  const RecordedCall running(kGroup, {"barrier", 1});
  for (std::uint64_t i = 2; i < 1000; ++i) const RecordedCall ended(kGroup, {"allreduce", i});
  const auto lines = written();
  ASSERT_EQ(lines.size(), 257U);
  EXPECT_EQ(lines[1].at("call"), "barrier");
  EXPECT_EQ(lines[2].at("number"), 1000 - 255);
  EXPECT_EQ(lines[256].at("number"), 999);
}

TEST_F(FlightRecorder, LosesCallsAndNothingElseWhereAllSlotsAreTaken) {
  std::vector<std::unique_ptr<RecordedCall>> running;
  for (std::uint64_t i = 0; i < 300; ++i)
    running.push_back(std::make_unique<RecordedCall>(kGroup, CallName{"recv", i}));
  EXPECT_EQ(written().size(), 257U);
  running.clear();
  const RecordedCall next(kGroup, {"barrier", 1});
  EXPECT_EQ(written().back().at("call"), "barrier");
}

/// Threads record while one writes: each line is one whole call.
TEST_F(FlightRecorder, IsWrittenWhileThreadsRecord) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&stop, t] {
      const auto number = static_cast<std::uint64_t>(t + 1);
      while (!stop) const RecordedCall call({t, t, t, t}, {"allreduce", number, number, DType::kFloat32, t});
    });
  }
  for (int i = 0; i < 30; ++i) {
    const auto lines = written();
    for (std::size_t k = 1; k < lines.size(); ++k) {
      if (lines[k].at("call") != "allreduce" || lines[k].at("size") == 3) continue;  // of another test
      const int t = lines[k].at("leader");
      EXPECT_EQ(lines[k].at("peer"), t);
      EXPECT_EQ(lines[k].at("number"), t + 1);
      EXPECT_EQ(lines[k].at("count"), t + 1);
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(FlightRecorder, IsWrittenByASignalHandler) {
  const RecordedCall running(kGroup, {"alltoall", 12});
  const auto before = std::signal(SIGUSR2, [](int) { write_calls("a signal"); });
  std::raise(SIGUSR2);
  std::signal(SIGUSR2, before);
  std::ifstream file(folder_.path() / "calls" / "rank-0003.jsonl");
  std::string first;
  std::getline(file, first);
  EXPECT_EQ(json::parse(first).at("reason"), "a signal");
  errno = EDOM;  // the interrupted code may look at it
  write_calls("a signal");
  EXPECT_EQ(errno, EDOM);
}

/// A thread, and a signal handler on another thread, may write at once: a single rank wrote the file.
TEST_F(FlightRecorder, IsWrittenByOneAtATime) {
  std::vector<std::unique_ptr<RecordedCall>> running;
  for (std::uint64_t i = 0; i < 100; ++i)
    running.push_back(std::make_unique<RecordedCall>(kGroup, CallName{"recv", i}));
  for (int round = 0; round < 200; ++round) {
    std::thread other([] { write_calls("another thread"); });
    write_calls("this thread");
    other.join();
    std::ifstream file(folder_.path() / "calls" / "rank-0003.jsonl");
    std::size_t heads = 0;
    for (std::string line; std::getline(file, line);) {
      ASSERT_TRUE(json::accept(line)) << line;
      heads += json::parse(line).contains("reason") ? 1 : 0;
    }
    ASSERT_EQ(heads, 1U);
  }
}

TEST_F(FlightRecorder, WritesNowhereUnlessTold) {
  set_calls_folder("");
  write_calls("a test");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "calls"));
}

TEST_F(FlightRecorder, WritesToStandardError) {
  const RecordedCall running(kGroup, {"scatter", 12});
  set_calls_folder("stderr");
  ::testing::internal::CaptureStderr();
  write_calls("a test");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("\"reason\":\"a test\""), std::string::npos);
  EXPECT_NE(text.find("\"call\":\"scatter\""), std::string::npos);
}

}  // namespace
}  // namespace mn

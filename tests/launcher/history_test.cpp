// The file of --doctor --history: the record of a run, hosts with many failures, damage, and several writers.
#include "selftest/history.hpp"

#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

#include "selftest/report_text.hpp"

namespace mn::selftest {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class HistoryTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }
  void write(const std::string& text) { std::ofstream(file_, std::ios::app) << text; }

  const std::string file_ = ::testing::TempDir() + "mn-history-" + std::to_string(getpid());
};

/// A report about vn1 and vn2, in order.
json healthy_report() {
  return {
      {"findings", json::array()},
      {"placement",
       {{{"rank", 0}, {"host", "vn1"}, {"intra_rank", 0}, {"inter_rank", 0}},
        {{"rank", 1}, {"host", "vn2"}, {"intra_rank", 0}, {"inter_rank", 1}}}},
      {"self_test", {{"pairs", {{{"from", "vn1"}, {"to", "vn2"}, {"latency_us", 2.0}, {"bandwidth_mb_s", 900.0}}}}}},
      {"figures", {{"vn2", {{"host_gpu_gb_s", 48.5}}}}}};
}

json spoilt_by(json finding) {
  json report = healthy_report();
  report["findings"].push_back(std::move(finding));
  report["advice"] = advice_of(report);
  return report;
}

json finding(const std::string& check, const std::string& severity, const std::string& advice = "") {
  json made = {{"check", check}, {"severity", severity}, {"hosts", {"vn2"}}, {"what", "w"}, {"remedy", "r"}};
  if (!advice.empty()) made["advice"] = advice;
  return made;
}

std::vector<json> records_of(const json& report) {
  return selftest::records_of(report, std::chrono::system_clock::time_point(std::chrono::seconds(1'000'000'000)));
}

TEST_F(HistoryTest, ARecordSaysWhatARunFoundOnAHost) {
  const auto records = records_of(spoilt_by(finding("gpu-health", "warning", "reset")));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0], json({{"time", "2001-09-09T01:46:40Z"},
                              {"host", "vn1"},
                              {"verdict", "well"},
                              {"findings", json::array()},
                              {"failed", json::array()},
                              {"figures", {{"network_mb_s", 900.0}}}}));
  EXPECT_EQ(records[1].at("verdict"), "warned");
  EXPECT_EQ(records[1].at("advice"), "reset");
  EXPECT_EQ(records[1].at("findings")[0].at("check"), "gpu-health");
  EXPECT_EQ(records[1].at("figures"), json({{"network_mb_s", 900.0}, {"host_gpu_gb_s", 48.5}}));
  EXPECT_EQ(records_of(spoilt_by(finding("driver", "error")))[1].at("verdict"), "failed");
  json report = healthy_report();
  report["blamed"] = {{{"test", "links"}, {"hosts", {"vn1"}}, {"advice", "watch"}}};
  EXPECT_EQ(records_of(report)[0].at("verdict"), "failed");
  EXPECT_EQ(records_of(report)[0].at("failed"), json({"links"}));
}

TEST_F(HistoryTest, WhoFailsOftenIsNamedWithWhatWasFound) {
  const auto broken = records_of(spoilt_by(finding("gpu-health", "warning", "reset")));
  const auto other = records_of(spoilt_by(finding("fabric", "error", "isolate")));
  const auto well = records_of(healthy_report());
  for (const auto* run : {&broken, &well, &other, &well}) append_history(file_, *run);
  const json history = history_with(read_history(file_), broken);
  EXPECT_EQ(history.at("often"),
            json({{{"host", "vn2"}, {"found", 3}, {"of", 5}, {"what", {"fabric", "gpu-health"}}}}));
  json report = healthy_report();
  report["history"] = history;
  EXPECT_THAT(text_of(report), HasSubstr("  vn2: 3 of its last 5 checks found fabric, gpu-health\n"));
}

TEST_F(HistoryTest, AnErrorOfAllHostsSpeaksAgainstNone) {
  json everywhere = finding("files", "error");
  everywhere["hosts"] = {"vn1", "vn2"};
  const auto run = records_of(spoilt_by(everywhere));
  EXPECT_EQ(run[0].at("verdict"), "failed");
  append_history(file_, run);
  EXPECT_THAT(history_with(read_history(file_), run).at("often"), IsEmpty());
}

TEST_F(HistoryTest, OneBadRunAndWarningsAboutJobsAreNotOften) {
  append_history(file_, records_of(spoilt_by(finding("fabric", "error", "isolate"))));
  for (int run = 0; run < 5; ++run) append_history(file_, records_of(spoilt_by(finding("cma", "warning"))));
  EXPECT_THAT(history_with(read_history(file_), records_of(healthy_report())).at("often"), IsEmpty());
}

TEST_F(HistoryTest, OnlyTheNewestRunsCount) {
  const auto broken = records_of(spoilt_by(finding("fabric", "error", "isolate")));
  for (int run = 0; run < 5; ++run) append_history(file_, broken);
  for (int run = 0; run < 9; ++run) append_history(file_, records_of(healthy_report()));
  EXPECT_THAT(history_with(read_history(file_), records_of(healthy_report())).at("often"), IsEmpty());
  EXPECT_EQ(history_with(read_history(file_), broken).at("often"), json::array()) << "1 of 10";
}

TEST_F(HistoryTest, DamagedLinesAreSkippedAndNamed) {
  const auto broken = records_of(spoilt_by(finding("fabric", "error")));
  append_history(file_, broken);
  write("no JSON\n\n[1, 2]\n{\"host\": 7, \"findings\": [], \"failed\": []}\n" + std::string(1000, '[') + "\n");
  write(broken[1].dump().substr(0, 20));  // as a full disk leaves it
  append_history(file_, broken);
  const History history = read_history(file_);
  EXPECT_THAT(history.damaged, ElementsAre(3, 5, 6, 7, 8));
  EXPECT_EQ(history.found.at("vn2").size(), 2u);
  json report = healthy_report();
  report["history"] = history_with(history, {});
  EXPECT_THAT(text_of(report), HasSubstr("  line 3 is damaged and was skipped\n"));
}

TEST_F(HistoryTest, WritersAtOnceDoNotMixTheirLines) {
  constexpr int kWriters = 8;
  constexpr int kRuns = 50;
  json report = healthy_report();
  for (int host = 3; host < 40; ++host) report["placement"].push_back({{"host", "vn" + std::to_string(host)}});
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&] {
      for (int run = 0; run < kRuns; ++run) append_history(file_, records_of(report));
    });
  }
  for (auto& writer : writers) writer.join();
  EXPECT_THAT(read_history(file_).damaged, IsEmpty());
  std::ifstream lines(file_);
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) ++count;
  EXPECT_EQ(count, kWriters * kRuns * 39);
}

TEST_F(HistoryTest, AnAbsentFileIsEmptyAndAFolderIsAnError) {
  EXPECT_THAT(read_history(file_).found, IsEmpty());
  EXPECT_THROW(static_cast<void>(read_history(::testing::TempDir())), Error);
  EXPECT_THROW(append_history("/absent/history", records_of(healthy_report())), Error);
  EXPECT_THAT(text_of(healthy_report()), Not(HasSubstr("history")));
}

}  // namespace
}  // namespace mn::selftest

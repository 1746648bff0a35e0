// The self test's judgment of measured figures.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/json.hpp>
#include <mn/core/nccl_versions.hpp>

#include "selftest/doctor_report.hpp"
#include "selftest/job_tests.hpp"
#include "selftest/report_text.hpp"
#include "selftest/thresholds.hpp"

namespace mn::selftest {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(CollectivesTest, SumsAreExactOnAnyNumberOfRanks) {
  for (const int size : {1, 2, 3, 64, 729, 730, 731, 4096, 100'000}) {
    for (const std::size_t i : {0, 1, 63, 64, 1026}) {
      float sum = 0;
      for (int rank = 0; rank < size; ++rank) sum += term(i, rank);
      float backwards = 0;
      for (int rank = size; rank-- > 0;) backwards += term(i, rank);
      EXPECT_EQ(sum, sum_of_terms(i, size)) << size << " ranks, element " << i;
      EXPECT_EQ(sum, backwards);
    }
  }
}

TEST(PortCountsTest, WhatIsCountedDuringTheTestCounts) {
  const auto reading = [](std::int64_t downs, std::int64_t errors) {
    return std::vector<launcher::PortFacts>{
        {.name = "mlx5_0/1", .state = {}, .rate = {}, .downs = downs, .errors = errors}};
  };
  EXPECT_EQ(judge_ports({}, {}), "");
  EXPECT_EQ(judge_ports(reading(200, 60'000), reading(200, 60'010)), "passed") << "old ones don't count";
  EXPECT_EQ(judge_ports(reading(200, 0), reading(201, 0)), "FAILED: mlx5_0/1 lost its link 1 times");
  EXPECT_EQ(judge_ports(reading(0, 5), reading(0, 105)), "FAILED: mlx5_0/1 counted 100 errors");
  EXPECT_EQ(judge_ports(reading(9, 9), reading(0, 0)), "passed") << "somebody has reset them";
}

TEST(ResultsTest, AllRanksAreHeard) {
  EXPECT_EQ(combine({"passed", "passed"}, {"vn1", "vn2"}), "passed");
  EXPECT_EQ(combine({"no GPU", "", ""}, {"vn1", "vn1", "vn2"}), "no GPU");
  EXPECT_EQ(combine({"", ""}, {"vn1", "vn2"}), "");
  EXPECT_EQ(combine({"passed", "FAILED: wrong sums", "passed"}, {"vn1", "vn2", "vn3"}),
            "FAILED: wrong sums (vn2); passed (vn[1,3])");
}

json report_with(const json& tests) {
  return {{"findings", json::array()}, {"placement", json::array()}, {"self_test", tests}};
}

json pair_of(const std::string& from, const std::string& to, double bandwidth) {
  return {{"from", from}, {"to", to}, {"answered", true}, {"latency_us", 2.0}, {"bandwidth_mb_s", bandwidth}};
}

TEST(ResultsTest, ErrorsAndFailuresAreErrors) {
  EXPECT_FALSE(has_errors(report_with({{"ring", "passed"}, {"pairs", json::array()}})));
  EXPECT_TRUE(has_errors(report_with({{"links", "FAILED: the link vn1 - vn2 does not answer"}})));
  json report = report_with(json::object());
  report["findings"] = {{{"check", "cpu"}, {"severity", "warning"}}};
  EXPECT_FALSE(has_errors(report));
  report["findings"][0]["severity"] = "error";
  EXPECT_TRUE(has_errors(report));
}

TEST(ResultsTest, WhatHasBecomeSlowerIsAChange) {
  const auto report = [](double bandwidth, double copies) {
    return report_with(
        {{"pairs", {pair_of("vn1", "vn2", bandwidth), pair_of("vn1", "vn3", 1000)}}, {"host_gpu_gb_s", copies}});
  };
  EXPECT_THAT(changes_since(report(1000, 50), report(900, 45)), IsEmpty());
  EXPECT_THAT(changes_since(report(1000, 50), report(700, 50)), ElementsAre("vn1 - vn2: 700, it was 1000"));
  EXPECT_THAT(changes_since(report(1000, 50), report(1000, 20)), ElementsAre("host_gpu_gb_s: 20, it was 50"));
  EXPECT_THAT(changes_since(report_with(json::object()), report(1, 1)), IsEmpty()) << "nothing to compare with";
  EXPECT_EQ(verdict_of({}), "passed");
  EXPECT_EQ(verdict_of({"a", "b"}), "FAILED: a; b");
}

TEST(ResultsTest, OfManyPairsTheSlowestAreShown) {
  json pairs = json::array();
  for (int i = 0; i < 100; ++i) pairs.push_back(pair_of("a", "b" + std::to_string(i), 1000.0 + i));
  json report = report_with({{"ring", "passed"}, {"pairs", pairs}});
  report["placement"] = {{{"rank", 0},
                          {"host", "vn1"},
                          {"intra_rank", 0},
                          {"inter_rank", 0},
                          {"device", "cuda:0"},
                          {"gpu", "0000:3b:00.0"},
                          {"cores", "0-7"},
                          {"nic", "mlx5_0"}}};
  const std::string text = text_of(report);
  EXPECT_THAT(text, HasSubstr("100 pairs of nodes, of which these are the slowest"));
  EXPECT_THAT(text, HasSubstr("a - b7: 2.0 us, 1007 MB/s"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("a - b8:")));
  for (const char* word : {"cuda:0", "0000:3b:00.0", "0-7", "mlx5_0"}) EXPECT_THAT(text, HasSubstr(word));
}

TEST(ResultsTest, AdviceIsTheGravestForEachHost) {
  json report = report_with(json::object());
  EXPECT_THAT(text_of(report), ::testing::Not(HasSubstr("advice")));
  const auto finding = [](const std::string& host, const std::string& advice) {
    return json{{"check", "gpu-health"}, {"severity", "warning"}, {"hosts", {host}},
                {"what", "w"},           {"remedy", "r"},         {"advice", advice}};
  };
  report["findings"] = {finding("vn1", "watch"), finding("vn2", "watch"), finding("vn2", "reset"),
                        finding("vn3", "isolate")};
  report["xids"] = {{"vn2", {13, 79}}, {"vn3", {48}}, {"vn4", {999}}};
  report["without_kernel_log"] = {"vn7", "vn8"};
  EXPECT_THAT(advice_of(report), ElementsAre(std::pair("vn1", "watch"), std::pair("vn2", "reboot"),
                                             std::pair("vn3", "isolate"), std::pair("vn4", "watch")));
  const std::string text = text_of(report);
  EXPECT_THAT(text, HasSubstr("the kernel log is not readable on vn[7-8]: "));
  EXPECT_THAT(text, ::testing::EndsWith("\nadvice:\n  vn1: watch\n  vn2: reboot; until then --exclude=vn2\n"
                                        "  vn3: isolate; until then --exclude=vn3\n  vn4: watch\n"));
}

TEST(ResultsTest, HostsHaveTheLaunchersNames) {
  const auto placement = [](const std::vector<std::string>& hosts) {
    json rows = json::array();
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) rows.push_back({{"rank", rank}, {"host", hosts[rank]}});
    return rows;
  };
  const std::vector<std::string> by_mpi = {"a.site", "a.site", "b.site"};
  EXPECT_THAT(launcher_names(placement({"vn1", "vn1", "vn2"}), by_mpi), ElementsAre("vn1", "vn1", "vn2"));
  EXPECT_EQ(launcher_names(placement({"vn1", "vn1", "vn1"}), by_mpi), by_mpi);
  EXPECT_EQ(launcher_names(placement({"vn1", "vn2", "vn3"}), by_mpi), by_mpi);
}

TEST(ResultsTest, FailedTestsAreInTheAdvice) {
  EXPECT_THAT(failed_hosts({"passed", "FAILED: slow", "FAILED: no", ""}, {"vn1", "vn2", "vn2", "vn3"}),
              ElementsAre("vn2"));
  EXPECT_THAT(failed_hosts({"FAILED: no", "FAILED: no"}, {"vn1", "vn1"}), ElementsAre("vn1"));
  EXPECT_THAT(failed_hosts({"FAILED: no", "FAILED: no"}, {"vn1", "vn2"}), IsEmpty()) << "no host's fault";
  json report = report_with({{"links", "FAILED: the network of vn2"}});
  report["blamed"] = {{{"test", "links"}, {"hosts", {"vn2"}}, {"advice", "isolate"}},
                      {{"test", "nccl_allreduce"}, {"hosts", {"vn2", "vn3"}}, {"advice", "watch"}}};
  EXPECT_THAT(advice_of(report), ElementsAre(std::pair("vn2", "isolate"), std::pair("vn3", "watch")));
}

TEST(ResultsTest, GpusThatCudaDoesNotSeeAreAFinding) {
  json report = report_with(json::object());
  report["findings"].push_back(
      finding_of_gpu_problem("NVML shows GPUs to this job, but CUDA sees none: cuInit returned 802", {"vn2", "vn3"}));
  EXPECT_TRUE(has_errors(report));
  const std::string text = text_of(report);
  EXPECT_THAT(text, HasSubstr("error [cuda] vn[2-3]: NVML shows GPUs to this job, but CUDA sees none: cuInit"));
  EXPECT_THAT(text, HasSubstr("vn3: reboot; until then --exclude=vn3"));
  report["findings"] = {finding_of_gpu_problem(std::string("x: ") + kNotThisBuild, {"vn2"})};
  EXPECT_THAT(advice_of(report), IsEmpty());
}

TEST(ResultsTest, NcclsKnownFaultsAreAWarning) {
  json report = report_with(json::object());
  report["findings"].push_back(finding_of_nccl_faults(nccl_faults(22807), {"vn2", "vn3", "vn2"}));
  EXPECT_FALSE(has_errors(report));
  EXPECT_THAT(text_of(report), HasSubstr("warning [nccl] vn[2-3]: NCCL 2.28.7 can hang on large clusters"));
  EXPECT_THAT(text_of(report), HasSubstr("use NCCL 2.28.9 or newer"));
}

TEST(ThresholdsTest, KindsAreFoundInTheNamesOfGpus) {
  EXPECT_EQ(figures_of("NVIDIA H200")->fabric_gbit_s, 360);
  EXPECT_EQ(figures_of("NVIDIA H100 80GB HBM3")->allreduce_gb_s, 460);
  for (const char* other : {"NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA GH200 480GB",
                            "NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe"}) {
    EXPECT_EQ(figures_of(other), nullptr) << other << " has other links";
  }
  EXPECT_EQ(figures_of("Tesla T4"), nullptr);
  EXPECT_EQ(figures_of(""), nullptr);
}

TEST(WatchdogTest, ThePartThatHangsIsNamedOnce) {
  std::atomic<int> calls = 0;
  std::string late;
  {
    Watchdog timer(std::chrono::milliseconds(200), [&](const std::string& part) {
      late = part;
      ++calls;
    });
    timer.begin("the first");
    timer.begin("the second");
    while (calls == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(late, "the second");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace mn::selftest

// Each check is quiet on a healthy job, and names the right hosts and severity after a single spoilt fact.
#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "healthy.hpp"

namespace mn::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CheckTest, AHealthyJobIsLeftAlone) {
  std::string all;
  for (const auto& finding : run_checks(healthy_job())) all += to_line(finding) + "\n";
  EXPECT_EQ(all, "");
}

struct Fault {
  const char* name;
  Findings (*check)(const JobFacts&);
  std::function<void(JobFacts&)> spoil;
  bool is_error;
  std::vector<std::string> hosts;
  const char* what;
};

/// Spoils the third node.
std::function<void(JobFacts&)> third(const std::function<void(NodeFacts&)>& spoil) {
  return [=](JobFacts& job) { spoil(job.nodes[2]); };
}

const Fault kJobFaults[] = {
    {"sources",
     check_sources,
     [](JobFacts& job) { job.ranks[3].conflicts = {"X says rank 3, but Y is 0"}; },
     true,
     {"vn2"},
     "rank 3: X says rank 3, but Y is 0"},
    {"tasks", check_task_count, [](JobFacts& job) { job.ranks[2].size = 1; }, true, {"vn2"}, "counts 1 ranks"},
    {"distribution",
     check_distribution,
     [](JobFacts& job) { job.layout.nodes = {0, 0, 0, 1, 1, 2}; },
     false,
     {},
     "vn1 3, vn2 2, vn3 1"},
    {"arguments", check_arguments, [](JobFacts& job) { job.ranks[5].arguments = "18"; }, false, {"vn3"}, "differs"},
    {"affinity",
     check_affinity,
     [](JobFacts& job) { job.ranks[0].resources.mask = job.ranks[1].resources.mask = {2}; },
     true,
     {"vn1"},
     "one and the same CPU"},
    {"mask too narrow",
     check_room,
     [](JobFacts& job) {
       job.ranks[2].resources.mask = job.ranks[3].resources.mask = {0, 1, 2};
     },
     false,
     {"vn2"},
     "3 CPUs, but are to run 4 threads"},
    {"mask far from the gpu",
     check_gpu_affinity,
     [](JobFacts& job) {
       job.bindings[2][1].cpus = {0, 1};
     },
     false,
     {"vn3"},
     "far from their GPUs"},
    {"mpich under open mpi",
     check_mpi,
     [](JobFacts& job) {
       for (auto& node : job.nodes) {
         node.program.mpi = "MPICH";
         node.slurm_pmix = false;
       }
     },
     true,
     {"vn1", "vn2", "vn3"},
     "links MPICH"},
    {"open mpi under hydra",
     check_mpi,
     [](JobFacts& job) { job.launcher = Launcher::kPmi; },
     true,
     {"vn1", "vn2", "vn3"},
     "links Open MPI, but a launcher with a PMI server (Hydra, Flux) started it"},
    {"open mpi where variables alone tell the rank",
     check_mpi,
     [](JobFacts& job) {
       job.launcher = Launcher::kVariables;
       job.nodes[1].has_pmix = true;
     },
     true,
     {"vn1", "vn3"},
     "links Open MPI, but its launcher gave it no PMIx server"},
    {"srun without pmix",
     check_mpi,
     [](JobFacts& job) { job.launcher = Launcher::kSlurm; },
     true,
     {"vn1", "vn2", "vn3"},
     "no PMIx server"},
    {"mpich under srun without pmi",
     check_mpi,
     [](JobFacts& job) {
       job.launcher = Launcher::kSlurm;
       for (auto& node : job.nodes) node.program.mpi = "MPICH";
       job.nodes[0].has_pmi = true;
     },
     true,
     {"vn2", "vn3"},
     "links MPICH, but srun gave it no PMIx or PMI server"},
    {"a script with mpi4py under srun without pmi",
     check_mpi,
     [](JobFacts& job) {
       job.launcher = Launcher::kSlurm;
       for (auto& node : job.nodes) node.program.mpi = "";
       job.nodes[2].program.script_mpi = "mpi4py";
     },
     true,
     {"vn3"},
     "is a script that starts mpi4py"},
    {"variable absent",
     check_environment,
     [](JobFacts& job) { job.nodes[1].environment->erase("OMP_NUM_THREADS"); },
     false,
     {"vn2"},
     "OMP_NUM_THREADS is not set, but 4 on other nodes"},
    {"link down on rank 0's node",
     check_fabric,
     [](JobFacts& job) { job.nodes[0].system.ports[0].state = "INIT"; },
     true,
     {"vn1"},
     "mlx5_0/1 is INIT, but ACTIVE on other nodes"},
    {"clock off", check_clock, third([](NodeFacts& node) { node.time = 1005.0; }), false, {"vn3"}, "5 s ahead"},
    {"clock far off", check_clock, [](JobFacts& job) { job.nodes[0].time = 940.0; }, true, {"vn1"}, "60 s behind"},
    {"one machine",
     check_machines,
     third([](NodeFacts& node) { node.system.boot_id = "boot-vn1"; }),
     false,
     {"vn1", "vn3"},
     "the same machine"},
    {"output not writable",
     check_output_folder,
     [](JobFacts& job) { job.nodes[0].system.output.writable = false; },
     false,
     {"vn1"},
     "rank 0"},
    {"wrong card",
     check_subnet,
     [](JobFacts& job) {
       job.nodes[2].network->subnet = "192.168.0.0/16";
       job.nodes[2].network->subnets = {"192.168.0.0/16", "10.0.0.0/24"};
     },
     false,
     {"vn3"},
     "lies in 192.168.0.0/16, those of the other nodes in 10.0.0.0/24"},
    {"no common network",
     check_subnet,
     [](JobFacts& job) {
       job.nodes[2].network->subnet = "192.168.0.0/16";
       job.nodes[2].network->subnets = {"192.168.0.0/16"};
       job.nodes[2].network->failures = {"no TCP connection to vn1"};
     },
     true,
     {"vn3"},
     "don't reach each other"},
    {"blocked port",
     check_connections,
     third([](NodeFacts& node) { node.network->failures = {"no TCP connection to vn1"}; }),
     true,
     {"vn3"},
     "no TCP connection to vn1"},
};

class FaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(FaultTest, IsFoundAndNothingElse) {
  const auto& fault = GetParam();
  auto job = healthy_job();
  EXPECT_THAT(fault.check(job), IsEmpty()) << "not quiet on a healthy job";
  fault.spoil(job);
  const auto findings = fault.check(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].is_error, fault.is_error);
  EXPECT_THAT(findings[0].hosts, ::testing::ElementsAreArray(fault.hosts));
  EXPECT_THAT(findings[0].what, HasSubstr(fault.what));
  EXPECT_FALSE(findings[0].remedy.empty());
  EXPECT_THAT(to_line(findings[0]), ::testing::Not(HasSubstr("\n")));
  std::string all;
  for (const auto& finding : run_checks(job)) all += to_line(finding) + "\n";
  EXPECT_EQ(all, to_line(findings[0]) + "\n") << "of all checks";
}

TEST_P(FaultTest, IsLeftOutOrAWarningByItsName) {
  const auto& fault = GetParam();
  auto job = healthy_job();
  fault.spoil(job);
  const std::string name = fault.check(job).at(0).check;
  EXPECT_THAT(check_names(), ::testing::Contains(name));
  const auto is_named = [&](const Finding& finding) { return finding.check == name; };
  EXPECT_TRUE(std::ranges::any_of(run_checks(job), is_named));
  job.skip = {name};
  EXPECT_TRUE(std::ranges::none_of(run_checks(job), is_named));
  job.skip = {};
  job.warn = {name};
  for (const auto& finding : run_checks(job)) {
    EXPECT_FALSE(finding.is_error && finding.check == name) << to_line(finding);
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, FaultTest, ::testing::ValuesIn(kJobFaults), [](const auto& test) {
  std::string name = test.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

}  // namespace
}  // namespace mn::launcher

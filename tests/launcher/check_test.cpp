// Each check is quiet on a healthy job and speaks, with the right hosts and severity, when one thing is spoilt.
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

const Fault kFaults[] = {
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
    {"folder",
     check_folder,
     third([](NodeFacts& node) { node.system.folder.path = "/root"; }),
     false,
     {"vn3"},
     "/root"},
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
    {"program absent",
     check_program,
     third([](NodeFacts& node) { node.program.error = "program \"job\" was not found"; }),
     true,
     {"vn3"},
     "was not found"},
    {"program build",
     check_program,
     third([](NodeFacts& node) { node.program.program.id = "9999"; }),
     true,
     {"vn3"},
     "is 9999, elsewhere 1111"},
    {"mnlaunch build",
     check_program,
     third([](NodeFacts& node) { node.program.mnlaunch.id = "9999"; }),
     true,
     {"vn3"},
     "mnlaunch"},
    {"program cut off",
     check_program,
     third([](NodeFacts& node) { node.program.program.size = 4096; }),
     true,
     {"vn3"},
     "the size of the program is 4096, elsewhere 5000"},
    {"mnlaunch stripped",
     check_program,
     third([](NodeFacts& node) { node.program.mnlaunch.size = 4096; }),
     true,
     {"vn3"},
     "the size of mnlaunch"},
    {"settings of the site",
     check_program,
     third([](NodeFacts& node) { node.program.settings = "ab"; }),
     false,
     {"vn3"},
     "mnlaunch.conf is ab, elsewhere not there"},
    {"script", check_program, third([](NodeFacts& node) { node.program.script = "77"; }), true, {"vn3"}, "script"},
    {"program path",
     check_program,
     third([](NodeFacts& node) { node.program.program.path = "/opt/job"; }),
     false,
     {"vn3"},
     "/opt/job"},
    {"unresolved",
     check_unresolved,
     third([](NodeFacts& node) { node.program.missing = {"libfoo.so.1"}; }),
     true,
     {"vn3"},
     "libfoo.so.1"},
    {"mpi library",
     check_libraries,
     third([](NodeFacts& node) { node.program.libraries->at("libmpi.so.40").id = "9"; }),
     true,
     {"vn3"},
     "libmpi.so.40"},
    {"c library",
     check_libraries,
     third([](NodeFacts& node) { node.program.libraries->at("libc.so.6").id = "9"; }),
     false,
     {"vn3"},
     "libc.so.6"},
    {"library cut off",
     check_libraries,
     third([](NodeFacts& node) { node.program.libraries->at("libmpi.so.40").size = 4096; }),
     true,
     {"vn3"},
     "the size of libmpi.so.40 is 4096"},
    {"slow loader",
     check_libraries,
     third([](NodeFacts& node) { node.program.libraries.reset(); }),
     false,
     {"vn3"},
     "gave no list of the program's libraries"},
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
     "links Open MPI, but MPICH's"},
    {"srun without pmix",
     check_mpi,
     [](JobFacts& job) { job.launcher = Launcher::kSlurm; },
     true,
     {"vn1", "vn2", "vn3"},
     "no PMIx server"},
    {"mpiexec",
     check_mpiexec,
     third([](NodeFacts& node) { node.program.mpiexec = "/usr/bin/orterun"; }),
     false,
     {"vn3"},
     "/usr/bin/orterun"},
    {"nccl.conf",
     check_nccl,
     third([](NodeFacts& node) { node.nccl->system_file = "ab"; }),
     true,
     {"vn3"},
     "/etc/nccl.conf"},
    {"net plugin",
     check_nccl,
     third([](NodeFacts& node) { node.nccl->net_plugin = "libnccl-net.so"; }),
     true,
     {"vn3"},
     "plugin"},
    {"file absent",
     check_files,
     third([](NodeFacts& node) { node.files[0].exists = false; }),
     true,
     {"vn3"},
     "data.h5"},
    {"file size",
     check_files,
     third([](NodeFacts& node) { node.files[0].size = 11; }),
     true,
     {"vn3"},
     "is 11, elsewhere 10"},
    {"file middle",
     check_files,
     third([](NodeFacts& node) { node.files[0].changed = 6; }),
     false,
     {"vn3"},
     "time of change"},
    {"file content", check_files, third([](NodeFacts& node) { node.files[0].hash = "bb"; }), true, {"vn3"}, "hash"},
    {"path",
     check_environment,
     third([](NodeFacts& node) { node.environment->at("PATH") = "/opt/other/bin:/opt/mpi/bin"; }),
     false,
     {"vn3"},
     "PATH"},
    {"variable absent",
     check_environment,
     [](JobFacts& job) { job.nodes[1].environment->erase("OMP_NUM_THREADS"); },
     false,
     {"vn2"},
     "OMP_NUM_THREADS is not there, elsewhere 4"},
    {"nccl variable",
     check_environment,
     third([](NodeFacts& node) { (*node.environment)["NCCL_ALGO"] = "Ring"; }),
     true,
     {"vn3"},
     "NCCL_ALGO"},
    {"link down",
     check_fabric,
     third([](NodeFacts& node) { node.system.ports[0].state = "DOWN"; }),
     true,
     {"vn3"},
     "mlx5_0/1 is DOWN, elsewhere ACTIVE"},
    {"link down on rank 0's node",
     check_fabric,
     [](JobFacts& job) { job.nodes[0].system.ports[0].state = "INIT"; },
     true,
     {"vn1"},
     "mlx5_0/1 is INIT, elsewhere ACTIVE"},
    {"card absent",
     check_fabric,
     third([](NodeFacts& node) { node.system.ports.erase(node.system.ports.begin()); }),
     true,
     {"vn3"},
     "mlx5_0/1 is not there, elsewhere ACTIVE"},
    {"ethernet down",
     check_fabric,
     third([](NodeFacts& node) { node.system.ports[1].state = "down"; }),
     false,
     {"vn3"},
     "eth0 is down"},
    {"slow link",
     check_fabric,
     third([](NodeFacts& node) { node.system.ports[0].rate = "200 Gb/sec (4X HDR)"; }),
     false,
     {"vn3"},
     "is 200 Gb/sec (4X HDR), elsewhere 400"},
    {"link that comes and goes",
     check_fabric,
     third([](NodeFacts& node) { node.system.ports[0].downs = 51; }),
     false,
     {"vn3"},
     "lost its link 51 times since the node came up (days: 10)"},
    {"errors on a link",
     check_fabric,
     third([](NodeFacts& node) { node.system.ports[0].errors = 200 * 24 * 10 + 1; }),
     false,
     {"vn3"},
     "counted 48001 errors"},
    {"cpu time",
     check_cpu_time,
     third([](NodeFacts& node) { node.system.cpu.quota = 2.5; }),
     false,
     {"vn3"},
     "the time of 2.5 CPUs, but ranks are to run 8 threads"},
    {"memlock",
     check_memlock,
     third([](NodeFacts& node) { node.system.limits.memlock = 65536; }),
     true,
     {"vn3"},
     "locked memory"},
    {"shm small", check_shm, third([](NodeFacts& node) { node.system.shm.free_mib = 100; }), false, {"vn3"}, "100 MiB"},
    {"shm full", check_shm, third([](NodeFacts& node) { node.system.shm.free_mib = 10; }), true, {"vn3"}, "10 MiB"},
    {"limits",
     check_limits,
     third([](NodeFacts& node) { node.system.limits.nofile = 1024; }),
     false,
     {"vn3"},
     "nofile"},
    {"cma", check_cma, third([](NodeFacts& node) { node.system.ptrace_scope = "2"; }), false, {"vn3"}, "ptrace_scope"},
    {"cpu model", check_cpu, third([](NodeFacts& node) { node.system.cpu.model = "Xeon"; }), false, {"vn3"}, "Xeon"},
    {"kernel", check_cpu, third([](NodeFacts& node) { node.system.cpu.kernel = "5.0"; }), false, {"vn3"}, "5.0"},
    {"numa", check_cpu, third([](NodeFacts& node) { node.machine.numa_nodes = 4; }), false, {"vn3"}, "NUMA"},
    {"clock off", check_clock, third([](NodeFacts& node) { node.time = 1005.0; }), false, {"vn3"}, "5 s ahead"},
    {"clock far off", check_clock, [](JobFacts& job) { job.nodes[0].time = 940.0; }, true, {"vn1"}, "60 s behind"},
    {"one machine",
     check_machines,
     third([](NodeFacts& node) { node.system.boot_id = "boot-vn1"; }),
     false,
     {"vn1", "vn3"},
     "the same machine"},
    {"uid", check_user, third([](NodeFacts& node) { node.system.user.uid = 1001; }), true, {"vn3"}, "user id"},
    {"umask", check_user, third([](NodeFacts& node) { node.system.user.umask = 63; }), false, {"vn3"}, "umask"},
    {"tmp",
     check_temporary_folder,
     third([](NodeFacts& node) { node.system.tmp.writable = false; }),
     false,
     {"vn3"},
     "temporary"},
    {"output not shared",
     check_output_folder,
     third([](NodeFacts& node) { node.system.output.shared = false; }),
     false,
     {"vn3"},
     "/home/u/result"},
    {"output not writable",
     check_output_folder,
     [](JobFacts& job) { job.nodes[0].system.output.writable = false; },
     false,
     {"vn1"},
     "rank 0"},
    {"loopback name",
     check_address,
     third([](NodeFacts& node) { node.network->resolved = {"127.0.0.1"}; }),
     true,
     {"vn3"},
     "resolves to 127.0.0.1"},
    {"unknown name",
     check_address,
     third([](NodeFacts& node) { node.network->resolved = {}; }),
     true,
     {"vn3"},
     "does not resolve"},
    {"no card",
     check_subnet,
     third([](NodeFacts& node) { node.network->addresses = {}; }),
     true,
     {"vn3"},
     "no network card"},
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
  job.choice = {.skip = {name}, .warn = {}};
  EXPECT_TRUE(std::ranges::none_of(run_checks(job), is_named));
  job.choice = {.skip = {}, .warn = {name}};
  for (const auto& finding : run_checks(job)) {
    EXPECT_FALSE(finding.is_error && finding.check == name) << to_line(finding);
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, FaultTest, ::testing::ValuesIn(kFaults), [](const auto& test) {
  std::string name = test.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

}  // namespace
}  // namespace mn::launcher

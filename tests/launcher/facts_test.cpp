// The facts of a machine: hardware, ports, control groups, variables.
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "facts_fixture.hpp"
#include "launcher/facts/collect.hpp"
#include "launcher/start/exports.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

using FactsTest = FactsFixture;

TEST_F(FactsTest, HardwareIsReadUnderTheRoot) {
  put("proc/sys/kernel/yama/ptrace_scope", "2\n");
  put("proc/sys/kernel/osrelease", "6.9.1\n");
  put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Test CPU\n");
  put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\n");
  fs::create_directories(here_.root / "dev/shm");
  const auto facts = collect_system_facts(here_);
  EXPECT_EQ(facts.ptrace_scope, "2");
  EXPECT_EQ(facts.cpu.kernel, "6.9.1");
  EXPECT_EQ(facts.cpu.model, "Test CPU");
  EXPECT_EQ(facts.driver_module, "580.95.05");
  EXPECT_GT(facts.shm.free_mib, 0u);
  EXPECT_EQ(facts.boot_id, std::nullopt) << "there is no such file";
}

TEST_F(FactsTest, HardwareErrorsOfGpusComeFromTheKernelsLog) {
  put("proc/uptime", "200000.00 1.0\n");
  put("dev/kmsg",
      "4,1,100000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus.\n"  // two days ago
      "6,2,199000000000,-;usb 1-1: new device\n"
      "4,3,199000000001,-;NVRM: Xid (PCI:0000:5e:00): 13, pid=7, Graphics Exception\n"  // a program's mistake
      "4,4,199000000002,-;NVRM: Xid (PCI:0000:5e:00): 48, pid=7, DBE\n"
      " SUBSYSTEM=pci\n"
      "4,5,199000000003,-;NVRM: Xid (PCI:0000:5e:00): 48, pid=7, DBE\n");
  EXPECT_TRUE(collect_system_facts(here_).xids.empty()) << "there is no NVIDIA driver";
  EXPECT_EQ(collect_system_facts(here_).kernel_log, std::nullopt);
  put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\n");
  EXPECT_THAT(collect_system_facts(here_).xids, ElementsAre("GPU 0000:5e:00 XID 48"));
  EXPECT_EQ(collect_system_facts(here_).kernel_log, true);
  fs::remove(here_.root / "dev/kmsg");
  EXPECT_EQ(collect_system_facts(here_).kernel_log, false);
}

TEST_F(FactsTest, TheUmaskIsReadNotChanged) {
  put("proc/self/status", "Name:\tmnlaunch\nUmask:\t0027\n");
  EXPECT_EQ(collect_system_facts(here_).user.umask, 027);
}

TEST_F(FactsTest, PortsOfNetworkCardsComeFromSysfs) {
  const std::string port = "sys/class/infiniband/mlx5_0/ports/1/";
  put(port + "state", "4: ACTIVE\n");
  put(port + "rate", "400 Gb/sec (4X NDR)\n");
  put(port + "counters/link_downed", "3\n");
  put(port + "counters/symbol_error", "10\n");
  put(port + "counters/port_rcv_errors", "2\n");
  put("sys/class/infiniband/mlx5_0/ports/2/state", "1: DOWN\n");
  put("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
  put("sys/class/net/eth0/type", "1\n");
  put("sys/class/net/eth0/device/vendor", "0x15b3\n");
  put("sys/class/net/eth0/operstate", "up\n");
  put("sys/class/net/eth0/speed", "25000\n");
  put("sys/class/net/eth0/carrier_down_count", "1\n");
  put("sys/class/net/ib0/type", "32\n");  // IP over InfiniBand
  put("sys/class/net/ib0/device/vendor", "0x15b3\n");
  put("sys/class/net/docker0/type", "1\n");  // a bridge
  put("proc/uptime", "7200.5 1.0\n");
  const auto facts = collect_system_facts(here_);
  EXPECT_THAT(facts.ports,
              ElementsAre(PortFacts{"mlx5_0/1", "ACTIVE", "400 Gb/sec (4X NDR)", 3, 12},
                          PortFacts{"mlx5_0/2", "DOWN", {}, {}, {}}, PortFacts{"mlx5_1/1", "DOWN", {}, {}, {}},
                          PortFacts{"eth0", "ACTIVE", "25000 Mb/s", 1, {}}));
  put(port + "counters/symbol_error", "65535\n");
  EXPECT_TRUE(read_ports(here_.root)[0].is_full);
  EXPECT_EQ(facts.uptime_s, 7200.5);
  EXPECT_EQ(first_active_port("mlx5_0", here_.root), 1);
  EXPECT_EQ(first_active_port("mlx5_1", here_.root), 1) << "none is active";
  EXPECT_EQ(first_active_port("eth0", here_.root), std::nullopt);
  EXPECT_EQ(first_active_port("", here_.root), std::nullopt);
}

TEST_F(FactsTest, QuotasOfControlGroups) {
  EXPECT_EQ(collect_system_facts(here_).cpu.quota, std::nullopt);
  put("proc/self/cgroup", "0::/pod/container\n");
  put("sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
  put("sys/fs/cgroup/pod/container/cpu.max", "max 100000\n");
  EXPECT_EQ(collect_system_facts(here_).cpu.quota, 2.5) << "of the group above";
  put("sys/fs/cgroup/pod/container/cpu.max", "100000 100000\n");
  EXPECT_EQ(collect_system_facts(here_).cpu.quota, 1.0);
  put("proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/a\n");
  EXPECT_EQ(collect_system_facts(here_).cpu.quota, std::nullopt);
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "400000\n");
  put("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(collect_system_facts(here_).cpu.quota, 4.0);
  EXPECT_EQ(threads_within(16, 2, 4.0), 2);
  EXPECT_EQ(threads_within(1, 2, 64.0), 1);
  EXPECT_EQ(threads_within(16, 8, 1.5), 1);
  EXPECT_EQ(threads_within(16, 8, std::numeric_limits<double>::infinity()), 16);
}

TEST_F(FactsTest, AProgramOutsideOfABuildFolderTakesNoNoticeOfAMovedRoot) {
  EXPECT_EQ(hardware_root("/elsewhere"), "/");
  EXPECT_EQ(hardware_root(std::nullopt), "/");
}

TEST_F(FactsTest, VariablesOfLaunchersAreNotCompared) {
  const auto facts = collect_environment(Variables({{"OMPI_MCA_btl", "self"},
                                                    {"OMPI_MCA_orte_num_nodes", "2"},
                                                    {"MN_NODE_NAME", "a"},
                                                    {"MN_RANK", "1"},
                                                    {"MN_DEVICE", "cuda:1"},
                                                    {"NCCL_ALGO", "Ring"},
                                                    {"NCCL_SOCKET_IFNAME", "eth0"},
                                                    {"NCCL_IB_HCA", "=mlx5_0:1"},
                                                    {"UCX_NET_DEVICES", "mlx5_0:1"},
                                                    {"MN_LAUNCH_KEY", "secret"},
                                                    {"MN_STATUS_FILE", "/home/me/.mn-supervise-x4Tq9z"},
                                                    {"MN_START_LINKS", "5 13196038 1 the first rank on host vn1;"},
                                                    {"HOME", "/root"},
                                                    {"PATH", "/opt/x:/usr/bin:/bin:/opt/y"}}));
  EXPECT_EQ(facts, (std::map<std::string, std::string>{
                       {"OMPI_MCA_btl", "self"}, {"NCCL_ALGO", "Ring"}, {"PATH", "/opt/x:/opt/y"}}));
}

TEST_F(FactsTest, RepeatedFoldersOfSearchPathsAreNoDifference) {
  const auto facts = collect_environment(Variables(
      {{"LD_LIBRARY_PATH", "/opt/b:/opt/a:/opt/b:"}, {"PYTHONPATH", "/x:/x"}, {"PATH", "/opt/y:/opt/y:/bin"}}));
  EXPECT_EQ(facts, (std::map<std::string, std::string>{
                       {"LD_LIBRARY_PATH", "/opt/b:/opt/a"}, {"PYTHONPATH", "/x"}, {"PATH", "/opt/y"}}));
}

}  // namespace
}  // namespace mn::launcher

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <limits>

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mn/core/environment.hpp>

#include "launcher/facts/collect.hpp"
#include "launcher/facts/elf.hpp"
#include "launcher/facts/file_id.hpp"
#include "launcher/facts/find_library.hpp"
#include "launcher/facts/program_output_folder.hpp"
#include "launcher/place/pmix_library.hpp"
#include "launcher/start/exports.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FactsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    here_.root = folder_.path();
    here_.folder = fs::current_path();
    here_.program = executable_path();
    here_.arguments = {"facts_test"};
  }
  void put(const std::string& file, const std::string& text) {
    fs::create_directories((folder_.path() / file).parent_path());
    std::ofstream(folder_.path() / file) << text;
  }

  const test::TemporaryFolder folder_;  ///< it alone is removed: tests may point here_.root elsewhere
  Surroundings here_;
};

TEST_F(FactsTest, HardwareIsReadUnderTheRoot) {
  put("proc/sys/kernel/yama/ptrace_scope", "2\n");
  put("proc/sys/kernel/osrelease", "6.9.1\n");
  put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Test CPU\n");
  put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\n");
  fs::create_directories(here_.root / "sys/class/infiniband/mlx5_0");
  fs::create_directories(here_.root / "dev/shm");
  const auto facts = collect_system_facts(here_);
  EXPECT_EQ(facts.ptrace_scope, "2");
  EXPECT_EQ(facts.cpu.kernel, "6.9.1");
  EXPECT_EQ(facts.cpu.model, "Test CPU");
  EXPECT_EQ(facts.driver_module, "580.95.05");
  EXPECT_THAT(facts.fabric, ElementsAre("mlx5_0"));
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

TEST_F(FactsTest, ResultsGoWhereTheArgumentsSay) {
  put("work/file", "");
  here_.folder = here_.root / "work";
  EXPECT_EQ(output_folder(here_), here_.root / "work");
  here_.arguments = {"job", "--out", "new/result"};
  EXPECT_EQ(output_folder(here_), here_.root / "work");
  here_.arguments = {"job", "--out=" + here_.root.string()};
  EXPECT_EQ(output_folder(here_), here_.root);
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

TEST_F(FactsTest, ALoaderThatTakesLongIsWaitedForAndThenNamed) {
  EXPECT_GE(here_.loader_patience, std::chrono::seconds(10)) << "3 s are too few for a cold network file system";
  here_.loader_patience = std::chrono::milliseconds(0);
  const auto facts = collect_program_facts(here_);
  EXPECT_EQ(facts.libraries, std::nullopt);
  EXPECT_NE(facts.program.path, std::nullopt);
}

TEST_F(FactsTest, LibrariesAreFoundWithoutBeingLoaded) {
  const auto find = [&](const std::string& name, const std::string& path = "") {
    return find_library(name, path, here_.root);
  };
  EXPECT_EQ(find("libx.so"), std::nullopt);
  put("usr/lib/libx.so", "x");
  EXPECT_EQ(find("libx.so"), here_.root / "usr/lib/libx.so");
  put("opt/a/libx.so", "x");
  const std::string folder = (here_.root / "opt/a").string();
  EXPECT_EQ(find("libx.so", "/nowhere::" + folder), here_.root / "opt/a/libx.so");
  const auto libc = find_library("libc.so.6", "", "/");  // through this machine's cache
  ASSERT_TRUE(libc);
  EXPECT_TRUE(read_elf(*libc));
}

TEST_F(FactsTest, ADamagedCacheOfTheLoaderIsNoProblem) {
  std::ifstream file("/etc/ld.so.cache", std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  for (const std::size_t size : {std::size_t{0}, std::size_t{19}, std::size_t{47}, bytes.size() / 2}) {
    put("etc/ld.so.cache", bytes.substr(0, std::min(size, bytes.size())));
    EXPECT_EQ(find_library("libno-such.so", "", here_.root), std::nullopt);
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(bytes.size(), 4096); i += 5) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0xff);
    put("etc/ld.so.cache", damaged);
    static_cast<void>(find_library("libc.so.6", "", here_.root));
  }
}

TEST_F(FactsTest, ThePluginOfNcclIsKnownByNameAndBuild) {
  put("plugin/libnccl-net-foo.so", "one build");
  here_.variables = Variables({{"LD_LIBRARY_PATH", (here_.root / "plugin").string()}, {"NCCL_NET_PLUGIN", "foo"}});
  const auto before = collect_nccl_facts(here_).net_plugin.value();
  EXPECT_THAT(before, ::testing::StartsWith("libnccl-net-foo.so "));
  put("plugin/libnccl-net-foo.so", "another build");
  EXPECT_NE(collect_nccl_facts(here_).net_plugin, before);
  here_.variables.set("NCCL_NET_PLUGIN", "none");
  EXPECT_EQ(collect_nccl_facts(here_).net_plugin, "");
}

TEST_F(FactsTest, AMarkerOfAStartThatWasKilledIsRemovedByALaterOne) {
  put(".mnlaunch-old", "");
  put(".mnlaunch-young", "");
  put("mnlaunch-old", "");
  for (const char* name : {".mnlaunch-old", "mnlaunch-old"}) {
    fs::last_write_time(here_.root / name, fs::file_time_type::clock::now() - std::chrono::hours(2));
  }
  const Marker marker(here_.root, "7");
  EXPECT_FALSE(fs::exists(here_.root / ".mnlaunch-old"));
  EXPECT_TRUE(fs::exists(here_.root / ".mnlaunch-young"));
  EXPECT_TRUE(fs::exists(here_.root / "mnlaunch-old"));
}

TEST_F(FactsTest, ASignalThatEndsTheProcessRemovesItsMarker) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const auto cut_off = [&] {
      const Marker marker(here_.root, "7");
      if (!fs::exists(here_.root / marker.name())) _exit(1);
      raise(signal);
      _exit(2);
    };
    EXPECT_EXIT(cut_off(), ::testing::KilledBySignal(signal), "");
    EXPECT_FALSE(fs::exists(here_.root / ".mnlaunch-7")) << signal;
  }
  { const Marker marker(here_.root, "7"); }
  EXPECT_EXIT(raise(SIGTERM), ::testing::KilledBySignal(SIGTERM), "") << "the former action is back";
}

TEST_F(FactsTest, AnIgnoredSignalStaysIgnored) {
  const auto go_on = [&] {
    std::signal(SIGHUP, SIG_IGN);  // as nohup does
    const Marker marker(here_.root, "7");
    raise(SIGHUP);
    _exit(0);
  };
  EXPECT_EXIT(go_on(), ::testing::ExitedWithCode(0), "");
}

TEST_F(FactsTest, AProgramOutsideOfABuildFolderTakesNoNoticeOfAMovedRoot) {
  EXPECT_EQ(hardware_root("/elsewhere"), "/");
  EXPECT_EQ(hardware_root(std::nullopt), "/");
}

/// Bytes that this process has asked the kernel for.
std::uintmax_t bytes_read() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  std::uintmax_t bytes = 0;
  while (counters >> name >> bytes && name != "rchar:") continue;
  return bytes;
}

TEST_F(FactsTest, OfALargeFileWithoutABuildPiecesAreRead) {
  constexpr std::uintmax_t kBytes = 100 << 20;
  put("library", "first");
  const fs::path file = here_.root / "library";
  fs::resize_file(file, kBytes);
  const auto put_at = [&](std::uintmax_t at) {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(at));
    out << "other";
  };
  const auto begin = bytes_read();
  const auto id = file_id(file, {});
  EXPECT_LT(bytes_read() - begin, kBytes / 4);
  EXPECT_EQ(file_id(file, {}), id);
  put_at(kBytes - 5);
  const auto other_end = file_id(file, {});
  EXPECT_NE(other_end, id);
  put_at(0);
  EXPECT_NE(file_id(file, {}), other_end);
  EXPECT_EQ(file_id(here_.root / "absent", {}), std::nullopt);
}

TEST_F(FactsTest, AMarkerLastsForItsScope) {
  std::string name;
  {
    const Marker marker(here_.root, "7");
    name = marker.name();
    EXPECT_TRUE(fs::exists(here_.root / name));
  }
  EXPECT_FALSE(fs::exists(here_.root / name));
  EXPECT_EQ(Marker(here_.root / "absent", "7").name(), "");
}

TEST_F(FactsTest, TheProgramIsKnownByItsBuildAndItsLibraries) {
  const auto facts = collect_program_facts(here_);
  EXPECT_EQ(facts.program.path, here_.program.string());
  EXPECT_EQ(facts.program.id.value().size(), 16u);
  EXPECT_EQ(facts.program.size, fs::file_size(here_.program));
  EXPECT_TRUE(facts.libraries.value().contains("libc.so.6"));
  EXPECT_TRUE(facts.missing.empty());
  EXPECT_EQ(facts.mpi, "");
}

TEST_F(FactsTest, AScriptIsKnownByItsContent) {
  put("train.py", "print(1)\n");
  here_.arguments = {"python", "-u", (here_.root / "train.py").string()};
  const auto before = collect_program_facts(here_).script;
  put("train.py", "print(2)\n");
  EXPECT_NE(collect_program_facts(here_).script, before);
}

TEST_F(FactsTest, AScriptTellsTheMpiOfWhatItStarts) {
  const auto mpi_of = [&](const std::string& text) {
    put("start.sh", text);
    here_.arguments = {"sh", (here_.root / "start.sh").string()};
    return collect_program_facts(here_).script_mpi;
  };
  EXPECT_EQ(mpi_of("#!/bin/sh\nexec /bin/true\n"), "");
  EXPECT_EQ(mpi_of("from mpi4py import MPI\n"), "mpi4py");
  const std::string program = (executable_path().parent_path().parent_path() / "mnlaunch-selftest").string();
  EXPECT_NE(mpi_of("#!/bin/sh\nexec \"" + program + "\" --json\n"), "");
}

TEST_F(FactsTest, AProgramTellsWhereItsMpiIs) {
  const auto build = executable_path().parent_path().parent_path();
  EXPECT_THAT(folders_of_mpi(executable_path(), ""), IsEmpty());
  const auto folders = folders_of_mpi(build / "mnlaunch-selftest", "");
  ASSERT_FALSE(folders.empty());
  const auto names = loader_texts(build / "mnlaunch-selftest", DT_NEEDED);
  EXPECT_TRUE(std::ranges::any_of(names, [&](const auto& name) { return fs::exists(folders[0] / name); }));
  put("private/libpmix.so.2", "");
  EXPECT_EQ(pmix_libraries(Variables(), {here_.root / "private"}).front(), here_.root / "private/libpmix.so.2");
}

TEST_F(FactsTest, ElfFilesTellTheirLoaderAndBuild) {
  const auto elf = read_elf(executable_path());
  ASSERT_TRUE(elf);
  EXPECT_THAT(elf->interpreter, HasSubstr("ld-linux"));
  put("text", "not an ELF file, but long enough to hold the header of one, as long as a line may be");
  EXPECT_FALSE(read_elf(here_.root / "text"));
  EXPECT_FALSE(read_elf(here_.root / "absent"));
}

TEST_F(FactsTest, DamagedElfFilesAreNoProblem) {
  std::ifstream self(executable_path(), std::ios::binary);
  std::string bytes(4096, '\0');
  self.read(bytes.data(), 4096);
  for (std::size_t i = 64; i < bytes.size(); i += 7) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0xff);
    put("damaged", damaged.substr(0, 64 + i));
    static_cast<void>(read_elf(here_.root / "damaged"));
  }
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

TEST_F(FactsTest, FilesAreComparedBySizeAndEnds) {
  put("data", std::string(1 << 18, 'a'));
  const auto before = collect_file_facts({here_.root / "data", here_.root / "absent"});
  EXPECT_EQ(before[0].size, 1u << 18);
  EXPECT_FALSE(before[1].exists);
  put("data", std::string((1 << 18) - 1, 'a') + "b");
  EXPECT_NE(collect_file_facts({here_.root / "data"})[0].hash, before[0].hash);
}

}  // namespace
}  // namespace mn::launcher

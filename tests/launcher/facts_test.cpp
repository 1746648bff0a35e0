#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/core/environment.hpp>

#include "launcher/facts/collect.hpp"
#include "launcher/facts/elf.hpp"
#include "launcher/facts/output_folder.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FactsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    here_.root = fs::temp_directory_path() / ("mn_facts_test_" + std::to_string(getpid()));
    here_.folder = fs::current_path();
    here_.program = executable_path();
    here_.arguments = {"facts_test"};
    fs::create_directories(here_.root);
  }
  void TearDown() override { fs::remove_all(here_.root); }
  void put(const std::string& file, const std::string& text) {
    fs::create_directories((here_.root / file).parent_path());
    std::ofstream(here_.root / file) << text;
  }

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
  put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\n");
  EXPECT_THAT(collect_system_facts(here_).xids, ElementsAre("GPU 0000:5e:00 XID 48"));
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
                                                    {"NCCL_ALGO", "Ring"},
                                                    {"NCCL_SOCKET_IFNAME", "eth0"},
                                                    {"HOME", "/root"},
                                                    {"PATH", "/opt/x:/usr/bin:/bin:/opt/y"}}));
  EXPECT_EQ(facts, (std::map<std::string, std::string>{
                       {"OMPI_MCA_btl", "self"}, {"NCCL_ALGO", "Ring"}, {"PATH", "/opt/x:/opt/y"}}));
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

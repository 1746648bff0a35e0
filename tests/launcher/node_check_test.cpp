// Faults of one node, each planted alone: a line that names it, and status 1. And how a node's state is read.
#include "launcher/node/node_check.hpp"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/error.hpp>

#include "facts_fixture.hpp"
#include "healthy.hpp"
#include "launcher/checks/checks.hpp"
#include "launcher/node/inquiry.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

constexpr const char* kExpected =
    "gpus=2\ngpu-model=H100\ndriver=580.95.05\nib-ports=1\nib-rate=400\ncpus=64\nmemory-mib=500000\nkernel=6.1.0\n"
    "huge-pages=[madvise]\nnofile=65536\nshm-mib=4000\ntmp-mib=500\nmount=/shared/ # and a comment\n";

NodeState healthy_state() {
  NodeState node;
  node.facts = healthy_node(0);
  node.devices = {{.bus_id = "0000:00:00.0", .is_gpu = true, .on_bus = true, .width = 16, .max_width = 16},
                  {.bus_id = "0000:01:00.0", .is_gpu = true, .on_bus = true, .width = 16, .max_width = 16},
                  {.bus_id = "0000:05:00.0", .is_gpu = false, .on_bus = true, .width = 16, .max_width = 16}};
  node.mounted = {"/", "/shared"};
  node.mounts = {{"/shared", ""}};
  node.memory_mib = 515000;
  node.swap_used_mib = 0;
  return node;
}

Findings check(const NodeState& node, bool expecting = true, const Options& options = {}) {
  return check_node(node, expecting ? parse_expectations("f", kExpected) : Expectations(), options);
}

struct PlantedInNode {
  const char* name;
  const char* line;
  void (*spoil)(NodeState&);
};

const PlantedInNode kPlantedInNode[] = {
    {"driver_hangs", "[driver] vn1: the driver of the GPUs does not answer", [](auto& n) { n.driver_answers = false; }},
    {"gpu_not_shown", "[driver] vn1: GPU 0000:07:00.0 is on the PCI bus, but the driver does not show it",
     [](auto& n) { n.devices.push_back({.bus_id = "0000:07:00.0", .is_gpu = true, .width = 16, .max_width = 16}); }},
    {"gpu_off_the_bus", "[devices] vn1: GPU 0000:01:00.0 has fallen off the PCI bus",
     [](auto& n) { n.devices[1].on_bus = false; }},
    {"gpu_narrow", "[devices] vn1: GPU 0000:01:00.0 has a PCI link of 8 lanes, where it could have 16",
     [](auto& n) { n.devices[1].width = 8; }},
    {"card_narrow", "[devices] vn1: network card 0000:05:00.0 has a PCI link of 4 lanes",
     [](auto& n) { n.devices[2].width = 4; }},
    {"gpu_missing", "[devices] vn1: GPUs that the driver shows: 3, where 2 is expected (gpus)",
     [](auto& n) { n.facts.driver->gpus.push_back(healthy_gpu(2)); }},
    {"other_model", "[gpu-model] vn1: the model of the GPUs: A100, where H100 is expected",
     [](auto& n) { n.facts.driver->gpus[1].name = "A100"; }},
    {"other_driver", "[driver] vn1: the version of the driver: 570.1, where 580.95.05",
     [](auto& n) { n.facts.driver->version = n.facts.system.driver_module = "570.1"; }},
    {"module_of_another_version", "of different versions", [](auto& n) { n.facts.system.driver_module = "570.1"; }},
    {"reset_pending", "[gpu-health] vn1: GPU 0000:01:00.0 waits for a reset",
     [](auto& n) { n.facts.driver->gpus[1].remap_pending = true; }},
    {"uncorrected_errors", "[gpu-health] vn1: GPU 0000:00:00.0 has counted 2 uncorrected",
     [](auto& n) { n.facts.driver->gpus[0].health.uncorrected = 2; }},
    {"xid", "[gpu-health] vn1: the kernel logged", [](auto& n) { n.facts.system.xids = {"GPU 0000:01:00 XID 79"}; }},
    {"orphan", "[gpu-health] vn1: processes on GPUs that belong to no job: 1, where at most 0",
     [](auto& n) { n.facts.driver->gpus[1].processes = 1; }},
    {"too_few_ports", "[fabric] vn1: active InfiniBand and RoCE ports: 0, where at least 1",
     [](auto& n) { n.facts.system.ports[0].state = "DOWN"; }},
    {"slow_port", "[fabric] vn1: Gb/s of the slowest active port: 200, where at least 400",
     [](auto& n) { n.facts.system.ports[0].rate = "200 Gb/sec (4X HDR)"; }},
    {"link_lost_often", "[fabric] vn1: the network port mlx5_0/1 lost its link 90 times",
     [](auto& n) { n.facts.system.ports[0].downs = 90; }},
    {"cpus", "[cpu] vn1: CPUs that are online: 32, where at least 64", [](auto& n) { n.facts.system.cpu.count = 32; }},
    {"memory", "[memory] vn1: MiB of memory: 480000, where at least 500000", [](auto& n) { n.memory_mib = 480000; }},
    {"swap", "[memory] vn1: MiB of swap in use: 3000, where at most 1024", [](auto& n) { n.swap_used_mib = 3000; }},
    {"kernel", "[cpu] vn1: the kernel: 5.1, where 6.1.0", [](auto& n) { n.facts.system.cpu.kernel = "5.1"; }},
    {"huge_pages", "[cpu] vn1: the setting of transparent huge pages: [never]",
     [](auto& n) { n.facts.system.cpu.huge_pages = "[never]"; }},
    {"nofile", "[limits] vn1: open files that a process may have: 4096, where at least 65536",
     [](auto& n) { n.facts.system.limits.nofile = 4096; }},
    {"memlock", "[memlock] vn1: locked memory is limited", [](auto& n) { n.facts.system.limits.memlock = 65536; }},
    {"shm_small", "[shm] vn1: MiB free in /dev/shm: 2000", [](auto& n) { n.facts.system.shm.free_mib = 2000; }},
    {"tmp_full", "[tmp] vn1: MiB free in the folder for temporary files: 200",
     [](auto& n) { n.facts.system.tmp.free_mib = 200; }},
    {"tmp_not_writable", "[tmp] vn1: the folder for temporary files (TMPDIR, /tmp) is full",
     [](auto& n) { n.facts.system.tmp.writable = false; }},
    {"clock", "[clock] vn1: the clock is not synchronized", [](auto& n) { n.clock_is_synchronized = false; }},
    {"mount_hangs", "[mounts] vn1: /shared cannot be reached: no answer",
     [](auto& n) { n.mounts[0].fault = "no answer"; }},
    {"not_mounted", "[mounts] vn1: /shared/ is not mounted", [](auto& n) { n.mounted = {"/"}; }},
};

class NodeCheckTest : public ::testing::TestWithParam<PlantedInNode> {};

TEST_P(NodeCheckTest, IsTheOnlyLine) {
  auto node = healthy_state();
  GetParam().spoil(node);
  const auto findings = check(node);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(to_line(findings[0]), StartsWith("error ["));
  EXPECT_THAT(to_line(findings[0]), HasSubstr(GetParam().line));
  EXPECT_THAT(to_line(findings[0]), MatchesRegex("[^\n]*; [^\n]*"));
  Options options;
  options.warn = {findings[0].check};
  EXPECT_FALSE(check(node, true, options)[0].is_error);
  options.skip = {findings[0].check};
  EXPECT_THAT(check(node, true, options), IsEmpty());
  EXPECT_THAT(check_names(), ::testing::Contains(findings[0].check)) << "for --skip";
}

INSTANTIATE_TEST_SUITE_P(Planted, NodeCheckTest, ::testing::ValuesIn(kPlantedInNode),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(NodeCheckTest, AHealthyNodeHasNoFindings) {
  EXPECT_THAT(check(healthy_state()), IsEmpty());
  EXPECT_THAT(check(healthy_state(), false), IsEmpty());
}

TEST(NodeCheckTest, WithoutAFileEachPortMustBeActive) {
  auto node = healthy_state();
  node.facts.system.ports[0].state = "DOWN";
  const auto findings = check(node, false);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].what, HasSubstr("mlx5_0/1 is DOWN"));
}

TEST(NodeCheckTest, WithoutAFileRanksNeedRoomInShm) {
  auto node = healthy_state();
  node.facts.system.shm.free_mib = 20;
  const auto findings = check(node, false);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(to_line(findings[0]), HasSubstr("[shm] vn1: /dev/shm has 20 MiB free"));
}

TEST(NodeCheckTest, WrongExpectationsNameTheLine) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(parse_expectations("f", text));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of("\ngpu=4"), "f:2: there is no key \"gpu\"; did you mean gpus?");
  EXPECT_EQ(error_of("cpus=many"), "f:1: cpus is \"many\": give a whole number");
  EXPECT_EQ(error_of("kernel="), "f:1: kernel is \"\": give a value");
  EXPECT_EQ(error_of("cpus=4\ncpus=5"), "f:2: cpus is there twice");
  EXPECT_EQ(error_of("cpus"), "f:1: \"cpus\" is not KEY=VALUE");
  EXPECT_EQ(error_of("mount=/a\nmount=/b"), "");
  EXPECT_THAT(error_of("cpus=-5"), HasSubstr("give a whole number"));
  EXPECT_THAT(error_of(std::string("cpus=1\0x", 8)), HasSubstr("is no text"));
}

TEST(ExpectationsTest, AMountMayBeNamedByALink) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory_symlink("/shared", folder.path() / "link");
  auto node = healthy_state();
  const auto expected = parse_expectations("f", "mount=" + (folder.path() / "link/").string());
  EXPECT_THAT(compare_with_expectations(node, expected), IsEmpty());
  node.mounted = {"/"};
  EXPECT_EQ(compare_with_expectations(node, expected).size(), 1u);
}

using NodeStateTest = FactsFixture;

TEST_F(NodeStateTest, DevicesMountsAndMemoryAreRead) {
  const std::string gpu = "sys/bus/pci/devices/0000:3b:00.0/";
  put(gpu + "class", "0x030200\n");
  put(gpu + "vendor", "0x10de\n");
  put(gpu + "config", "\xff\xff\xff\xff");
  put(gpu + "current_link_width", "8\n");
  put(gpu + "max_link_width", "16\n");
  put("sys/bus/pci/devices/0000:00:1f.0/class", "0x060100\n");
  put("shared/file", "");
  put("proc/self/mounts", "a /shared nfs4 rw 0 0\nb /gone nfs rw 0 0\n/dev/sda / ext4 rw 0 0\n");
  put("proc/meminfo", "MemTotal:       4096 kB\nSwapTotal:  8192 kB\nSwapFree:  5120 kB\n");
  const auto node = read_node(here_, std::chrono::seconds(20));
  ASSERT_EQ(node.devices.size(), 1u);
  EXPECT_EQ(node.devices[0].bus_id, "0000:3b:00.0");
  EXPECT_TRUE(node.devices[0].is_gpu);
  EXPECT_FALSE(node.devices[0].on_bus);
  EXPECT_EQ(node.devices[0].width, 8);
  EXPECT_THAT(node.mounted, ElementsAre("/shared", "/gone", "/"));
  ASSERT_EQ(node.mounts.size(), 2u);
  EXPECT_EQ(node.mounts[0].fault, "");
  EXPECT_EQ(node.mounts[1].fault, "No such file or directory");
  EXPECT_EQ(node.memory_mib, 4);
  EXPECT_EQ(node.swap_used_mib, 3);
}

TEST(InquiryTest, AnswersOrIsGivenUp) {
  const auto soon = Inquiry::Clock::now() + std::chrono::seconds(60);
  EXPECT_EQ(Inquiry([] { return std::string("yes"); }).answer(soon), "yes");
  EXPECT_EQ(Inquiry([] { return std::string(); }).answer(soon), "");
  EXPECT_EQ(Inquiry([]() -> std::string { throw Error("no"); }).answer(soon), std::nullopt);
  EXPECT_EQ(Inquiry([]() -> std::string { std::abort(); }).answer(soon), std::nullopt);
  const auto hangs = []() -> std::string {
    for (;;) pause();
  };
  EXPECT_EQ(Inquiry(hangs).answer(Inquiry::Clock::now() + std::chrono::milliseconds(50)), std::nullopt);
}

TEST(InquiryTest, AnAnswerThatIsThereCountsAfterTheDeadline) {
  while (waitpid(-1, nullptr, 0) > 0) continue;  // children of other tests
  const auto start = Inquiry::Clock::now();
  Inquiry inquiry([] { return std::string("yes"); });
  siginfo_t ended;
  waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT);
  EXPECT_EQ(inquiry.answer(start), "yes");
}

}  // namespace
}  // namespace mn::launcher

// AMD GPUs from a sysfs of files: their number, the GPUs that a rank may use, their NUMA nodes, and the rank's
// variables.
#include "launcher/facts/gpu/amd_gpu.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "launcher/bind/affinity.hpp"
#include "launcher/start/exports.hpp"
#include "tests/support/folders.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AmdGpuTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_ / "dev/dri"); }
  void TearDown() override { fs::remove_all(root_); }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  [[nodiscard]] static fs::path device(int card) { return "sys/class/drm/card" + std::to_string(card) + "/device"; }
  /// As amdgpu shows a GPU.
  void add_gpu(int card, const std::string& bus_id, const std::string& id) const {
    const std::string render = "renderD" + std::to_string(128 + card);
    write(device(card) / "vendor", "0x1002");
    write(device(card) / "uevent", "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_SLOT_NAME=" + bus_id);
    write(device(card) / "mem_info_vram_total", "68702699520");
    write(device(card) / "gpu_busy_percent", "0");
    write(device(card) / "ras/umc_err_count", "ue: 0\nce: 3");
    write(device(card) / "product_name", "AMD Instinct MI250X");
    if (!id.empty()) write(device(card) / "unique_id", id);
    fs::create_directories(root_ / device(card) / "drm" / render);
    write(fs::path("dev/dri") / render, "");
  }
  [[nodiscard]] std::vector<Gpu> gpus() const {
    const auto driver = read_amd_gpus(root_);
    return driver ? driver->gpus : std::vector<Gpu>();
  }

  const fs::path root_ = fs::path(::testing::TempDir()) / ("mn-amd-" + std::to_string(getpid()));
};

std::vector<std::string> names_of(const std::vector<VisibleGpu>& gpus) {
  std::vector<std::string> names;
  for (const auto& gpu : gpus) names.push_back(gpu.uuid);
  return names;
}

TEST_F(AmdGpuTest, AreReadFromSysfsByBusId) {
  add_gpu(1, "0000:C1:00.0", "aaaaaaaaaaaaaaaa");
  add_gpu(2, "0000:29:00.0", "bbbbbbbbbbbbbbbb");
  write("sys/class/drm/card1-DP-1/status", "disconnected");
  write("sys/class/drm/version", "drm 1.1.0");
  write(device(3) / "vendor", "0x1a03");  // the graphics chip of a server's console
  const auto found = gpus();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].bus_id, "0000:29:00.0");
  EXPECT_EQ(found[0].uuid, "GPU-bbbbbbbbbbbbbbbb");
  EXPECT_EQ(found[0].name, "AMD Instinct MI250X");
  EXPECT_EQ(found[0].memory_mib, 65520u);
  EXPECT_EQ(found[0].processes, 0);
  EXPECT_EQ(found[0].health.uncorrected, 0u);
  EXPECT_EQ(found[1].bus_id, "0000:c1:00.0");
}

TEST_F(AmdGpuTest, ThatAreBusyOrIllSaySo) {
  add_gpu(0, "0000:29:00.0", "aaaaaaaaaaaaaaaa");
  write(device(0) / "gpu_busy_percent", "97");
  write(device(0) / "ras/umc_err_count", "ue: 2\nce: 0");
  EXPECT_EQ(gpus().at(0).processes, 1);
  EXPECT_EQ(gpus().at(0).health.uncorrected, 2u);
}

TEST_F(AmdGpuTest, WhereThereAreNoneThereIsNoDriver) {
  EXPECT_FALSE(read_amd_gpus(root_));
  EXPECT_FALSE(read_amd_gpus(root_ / "absent"));
  add_gpu(0, "0000:29:00.0", "aaaaaaaaaaaaaaaa");
  fs::remove(root_ / "dev/dri/renderD128");  // as under a control group that forbids opening the GPU
  EXPECT_FALSE(read_amd_gpus(root_));
}

TEST_F(AmdGpuTest, WithoutIdsOfTheirOwnHaveNumbers) {
  add_gpu(0, "0000:29:00.0", "");
  add_gpu(1, "0000:2a:00.0", "aaaaaaaaaaaaaaaa");
  add_gpu(2, "0000:2b:00.0", "aaaaaaaaaaaaaaaa");
  add_gpu(3, "0000:2c:00.0", "bbbbbbbbbbbbbbbb");
  EXPECT_THAT(names_of(visible_amd_gpus(gpus(), std::nullopt, std::nullopt)),
              ElementsAre("0", "1", "2", "GPU-bbbbbbbbbbbbbbbb"));
}

TEST_F(AmdGpuTest, AreGrantedByRocmAndOfTheseByHip) {
  for (int i = 0; i < 4; ++i) add_gpu(i, "0000:0" + std::to_string(i) + ":00.0", std::string(16, 'a' + i));
  const auto visible = [&](std::optional<std::string> rocr, std::optional<std::string> hip) {
    return names_of(visible_amd_gpus(gpus(), rocr, hip));
  };
  const std::string b = "GPU-bbbbbbbbbbbbbbbb";
  const std::string d = "GPU-dddddddddddddddd";
  EXPECT_EQ(visible(std::nullopt, std::nullopt).size(), 4u);
  EXPECT_THAT(visible("3,1", std::nullopt), ElementsAre(d, b));
  EXPECT_THAT(visible("GPU-dd,1", std::nullopt), ElementsAre(d, b));
  EXPECT_THAT(visible("3,1", "1"), ElementsAre(b));
  EXPECT_THAT(visible(std::nullopt, "3"), ElementsAre(d));
  EXPECT_THAT(visible("", std::nullopt), IsEmpty());
}

/// The variables of the rank at `intra_rank` of two, with `view` of all or one.
std::map<std::string, std::string> told(const std::vector<VisibleGpu>& gpus, int own, int intra_rank, bool one) {
  Equipment equipment;
  equipment.gpus = view_gpus(gpus, {.gpu = own, .cpus = {}, .nic = ""}, intra_rank, one);
  Variables variables;
  variables.set("CUDA_VISIBLE_DEVICES", "1,0");
  add_exports(variables, {}, {}, equipment);
  return variables.all();
}

TEST_F(AmdGpuTest, ARanksOwnIsWhereItsLocalRankSays) {
  add_gpu(0, "0000:29:00.0", "aaaaaaaaaaaaaaaa");
  add_gpu(1, "0000:2a:00.0", "bbbbbbbbbbbbbbbb");
  const auto visible = visible_amd_gpus(gpus(), std::nullopt, std::nullopt);
  EXPECT_FALSE(told(visible, 1, 1, false).contains("ROCR_VISIBLE_DEVICES")) << "as it is";
  EXPECT_EQ(view_gpus(visible, {.gpu = 1, .cpus = {}, .nic = ""}, 1, false).device(), "hip:1");
  const auto moved = told(visible, 1, 0, false);
  EXPECT_EQ(moved.at("ROCR_VISIBLE_DEVICES"), "GPU-bbbbbbbbbbbbbbbb,GPU-aaaaaaaaaaaaaaaa");
  EXPECT_EQ(moved.at("HIP_VISIBLE_DEVICES"), "0,1");
  EXPECT_EQ(moved.at("CUDA_VISIBLE_DEVICES"), "0,1");
  const auto one = told(visible, 1, 1, true);
  EXPECT_EQ(one.at("ROCR_VISIBLE_DEVICES"), "GPU-bbbbbbbbbbbbbbbb");
  EXPECT_EQ(one.at("HIP_VISIBLE_DEVICES"), "0");
}

TEST_F(AmdGpuTest, RanksGetThoseNearTheirCores) {
  // A node with eight GPUs, each near another eighth of the cores, and a mask for each rank.
  const Machine machine = read_machine(test::source_folder() / "tests/launcher/topologies/eas-tioga.xml");
  std::vector<VisibleGpu> visible;
  for (const auto& slot : machine.gpus) visible.push_back({slot.bus_id, slot.bus_id, true});
  ASSERT_EQ(visible.size(), 8u);
  std::vector<RankResources> ranks;
  for (const auto& slot : machine.gpus) ranks.push_back({slot.near, visible});
  const auto bindings = bind_ranks(machine, ranks, {});
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& own = machine.gpus[static_cast<std::size_t>(bindings[rank].gpu)];
    EXPECT_EQ(own.near, machine.gpus[rank].near) << rank;
    EXPECT_EQ(bindings[rank].nic, own.nic) << rank;
  }
}

}  // namespace
}  // namespace mn::launcher

#include "launcher/gpu.hpp"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mn::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GpuTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"MN_FAKE_GPUS", "MN_FAKE_FORBIDDEN", "MN_FAKE_MIG"}) unsetenv(name);
  }
  static std::vector<Gpu> gpus() { return read_gpus(FAKE_NVML)->gpus; }
  static std::vector<std::string> uuids(const std::optional<std::string>& visible) {
    std::vector<std::string> all;
    for (const auto& gpu : visible_gpus(gpus(), visible)) all.push_back(gpu.uuid);
    return all;
  }
};

TEST_F(GpuTest, WithoutADriverThereIsNothing) { EXPECT_EQ(read_gpus("libno-such-driver.so.1"), std::nullopt); }

TEST_F(GpuTest, ReadsWhatNvmlSays) {
  const auto driver = read_gpus(FAKE_NVML);
  ASSERT_TRUE(driver);
  EXPECT_EQ(driver->version, "580.95.05");
  EXPECT_EQ(driver->cuda_version, 13000);
  ASSERT_EQ(driver->gpus.size(), 2u);
  EXPECT_EQ(driver->gpus[1].uuid, "GPU-abc1");
  EXPECT_EQ(driver->gpus[1].bus_id, "0000:3c:00.0");
  EXPECT_EQ(driver->gpus[1].memory_mib, 80u << 10);
  EXPECT_FALSE(driver->gpus[1].throttled);  // functions that this NVML lacks are no bad news
}

TEST_F(GpuTest, GpusThatMayNotBeOpenedAreLeftOut) {
  setenv("MN_FAKE_FORBIDDEN", "1", 1);
  EXPECT_THAT(uuids(std::nullopt), ElementsAre("GPU-abc0"));
}

TEST_F(GpuTest, VisibleDevicesAsCudaReadsThem) {
  setenv("MN_FAKE_GPUS", "4", 1);
  EXPECT_THAT(uuids(std::nullopt), ElementsAre("GPU-abc0", "GPU-abc1", "GPU-abc2", "GPU-abc3"));
  EXPECT_THAT(uuids("2,0"), ElementsAre("GPU-abc2", "GPU-abc0"));
  EXPECT_THAT(uuids("GPU-abc3,1"), ElementsAre("GPU-abc3", "GPU-abc1"));
  EXPECT_THAT(uuids("1,7,2"), ElementsAre("GPU-abc1"));
  EXPECT_THAT(uuids("1,-1,2"), ElementsAre("GPU-abc1"));
  for (const char* none : {"", "-1", "NoDevFiles"}) EXPECT_THAT(uuids(none), IsEmpty()) << none;
}

TEST_F(GpuTest, InstancesOfACutGpu) {
  setenv("MN_FAKE_MIG", "1", 1);
  EXPECT_THAT(uuids("MIG-00001"), ElementsAre("MIG-00001"));
  EXPECT_THAT(uuids("0"), ElementsAre("MIG-00000"));
}

TEST_F(GpuTest, BusIdsOfNvmlAndHwlocAgree) {
  EXPECT_EQ(normal_bus_id("00000000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(normal_bus_id("0001:AF:00.0"), "0001:af:00.0");
}

}  // namespace
}  // namespace mn::launcher

// Which devices can make up an NCCL communicator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/comm/device/device_conflict.hpp>

namespace mn {
namespace {

std::string conflict(const std::vector<std::string>& devices) { return device_conflict(devices); }

TEST(DeviceConflict, NoneWhereEveryRankHasItsOwn) {
  EXPECT_EQ(conflict({"n1 0000:1b:00.0"}), "");
  EXPECT_EQ(conflict({"n1 0000:1b:00.0", "n1 0000:1c:00.0", "n2 0000:1b:00.0"}), "");
}

TEST(DeviceConflict, NamesTheRanksThatShare) {
  EXPECT_EQ(conflict({"n1 0000:1b:00.0", "n2 0000:1b:00.0", "n1 0000:1c:00.0", "n2 0000:1b:00.0"}),
            "ranks 1 and 3 share the GPU at 0000:1b:00.0 of host n2");
}

TEST(DeviceConflict, NamesTheRankWithoutGpu) {
  EXPECT_EQ(conflict({"n1 0000:1b:00.0", "cpu", "cpu"}), "rank 1 computes on the CPU");
}

}  // namespace
}  // namespace mn

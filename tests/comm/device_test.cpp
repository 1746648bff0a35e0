// Names of devices and dtypes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/buffer.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

TEST(Device, ParsesItsThreeForms) {
  EXPECT_EQ(Device::parse("cpu"), (Device{DeviceType::kCpu, 0}));
  EXPECT_EQ(Device::parse("cuda"), (Device{DeviceType::kCuda, 0}));
  EXPECT_EQ(Device::parse("cuda:3"), (Device{DeviceType::kCuda, 3}));
  EXPECT_EQ(Device::parse("cuda:3").str(), "cuda:3");
  EXPECT_EQ(Device().str(), "cpu");
}

TEST(Device, RefusesAnythingElse) {
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "CPU", "cuda:99999999999"}) {
    EXPECT_THROW(static_cast<void>(Device::parse(text)), UsageError) << text;
  }
}

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::kUInt8), 1U);
  EXPECT_EQ(size_of(DType::kBFloat16), 2U);
  EXPECT_EQ(size_of(DType::kFloat32), 4U);
  EXPECT_EQ(size_of(DType::kInt64), 8U);
  EXPECT_EQ(name_of(DType::kUInt8), "uint8");
  EXPECT_EQ(name_of(DType::kFloat64), "float64");
  EXPECT_EQ(name_of(ReduceOp::kMax), "max");
}

TEST(BufferView, SlicesByElements) {
  std::vector<float> values{1, 2, 3, 4, 5};
  const BufferView view(values);
  EXPECT_EQ(view.bytes(), 20U);
  EXPECT_EQ(view.slice(2, 2).data, &values[2]);
  EXPECT_EQ(view.slice(2, 2).count, 2U);
}

}  // namespace
}  // namespace mn

// Versions of libtorch that do not fit each other are named.
#include <mn/tensor/libtorch_version.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mn {
namespace {

using ::testing::HasSubstr;

TEST(LibtorchVersion, FitsUpToTheSecondNumber) {
  EXPECT_EQ(libtorch_fault("2.11.0", "2.11.1", "2.11.0+cu130"), "");
  EXPECT_EQ(libtorch_fault("2.11", "2.11.0", "2.11.2"), "");
  EXPECT_THAT(libtorch_fault("2.11.0", "2.11.0", "2.15.0"), HasSubstr("has loaded libtorch 2.15.0: "));
  EXPECT_THAT(libtorch_fault("2.1.0", "2.11.0", "2.11.0"), HasSubstr("compiled with libtorch 2.1.0, but its mn with"));
  EXPECT_THAT(libtorch_fault("2.11.0", "2.11.0", "none"), HasSubstr("has loaded libtorch none: "));
  EXPECT_EQ(libtorch_fault(TORCH_VERSION, TORCH_VERSION, loaded_libtorch()), "");
}

}  // namespace
}  // namespace mn

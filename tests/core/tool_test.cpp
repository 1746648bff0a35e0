#include <stdexcept>

#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/tool.hpp>

namespace mn {
namespace {

using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

TEST(Tool, AnErrorIsOneLineAndTheExitStatus) {
  EXPECT_EQ(run_tool("mntool", [] { return 5; }), 5);
  CaptureStderr();
  EXPECT_EQ(run_tool("mntool", []() -> int { throw UsageError("no such file"); }), kExitUsage);
  EXPECT_EQ(GetCapturedStderr(), "mntool: no such file\n");
  CaptureStderr();
  EXPECT_EQ(run_tool("mntool", []() -> int { throw std::runtime_error("out of luck"); }), 1);
  EXPECT_EQ(GetCapturedStderr(), "mntool: out of luck\n");
  CaptureStderr();
  EXPECT_EQ(run_tool("mntool", []() -> int { throw DataError("no file a\nb\x1B[2J日本.jpg"); }),
            DataError("").exit_code());
  EXPECT_EQ(GetCapturedStderr(), "mntool: no file a?b?[2J日本.jpg\n");
}

}  // namespace
}  // namespace mn

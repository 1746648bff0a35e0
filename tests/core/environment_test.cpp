#include <cerrno>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kName = "MN_ENVIRONMENT_TEST";

TEST(Environment, UnsetAndEmptyAreNothing) {
  unsetenv(kName);
  EXPECT_EQ(environment(kName), std::nullopt);
  EXPECT_EQ(environment_int(kName), std::nullopt);
  setenv(kName, "", 1);
  EXPECT_EQ(environment(kName), std::nullopt);
  EXPECT_EQ(environment_int(kName), std::nullopt);
}

TEST(Environment, WholeNumbers) {
  setenv(kName, "-42", 1);
  EXPECT_EQ(environment_int(kName), -42);
  for (const char* text : {"4x", "x", "1.5", " 1", "99999999999999999999"}) {
    setenv(kName, text, 1);
    EXPECT_THAT([] { static_cast<void>(environment_int(kName)); }, ThrowsMessage<UsageError>(HasSubstr(kName))) << text;
  }
}

TEST(Environment, SecondsHaveARange) {
  const auto read = [] { return environment_seconds(kName, 60, 100, "no watch").count(); };
  unsetenv(kName);
  EXPECT_EQ(read(), 60);
  for (const int seconds : {0, 100}) {
    setenv(kName, std::to_string(seconds).c_str(), 1);
    EXPECT_EQ(read(), seconds);
  }
  for (const char* text : {"-1", "101"}) {
    setenv(kName, text, 1);
    EXPECT_THAT([&] { static_cast<void>(read()); },
                ThrowsMessage<UsageError>(HasSubstr(": use 1 to 100 seconds, or 0 for no watch")));
  }
}

TEST(Environment, HostHasNoDomain) {
  EXPECT_FALSE(host_name().empty());
  EXPECT_EQ(host_name().find('.'), std::string::npos);
}

TEST(Environment, ExecutableIsThisTest) { EXPECT_EQ(executable_path().filename(), "core_test"); }

TEST(Errors, ExitCodesAndWhoReports) {
  EXPECT_EQ(Error("x").exit_code(), 1);
  EXPECT_FALSE(Error("x").on_all_ranks());
  EXPECT_EQ(UsageError("x").exit_code(), 2);
  EXPECT_TRUE(UsageError("x").on_all_ranks());
  EXPECT_FALSE(DataError("x").on_all_ranks());
  EXPECT_TRUE(DataError("x", true).on_all_ranks());
  EXPECT_EQ(with_errno("cannot open f", ENOENT), "cannot open f: No such file or directory");
}

}  // namespace
}  // namespace mn

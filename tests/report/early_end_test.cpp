// Pages of runs that ended before their first report.
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/report/make_report.hpp>

#include "tests/report/report_fixture.hpp"

namespace mn::report {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(ReportTest, ARunThatEndedBeforeItsFirstReportHasAPage) {
  const auto early = make_run("early", "", kStart + std::string(R"({"event":"end","iteration":7,"error":"a <NaN>"})"));
  fs::remove(early / "log");
  EXPECT_TRUE(has_run(early));
  EXPECT_FALSE(has_run("/absent"));
  const std::string page = make_report({early});
  for (const char* shown : {"ended with an error", "a &lt;NaN&gt;", "--x=&lt;b&gt;"})
    EXPECT_THAT(page, HasSubstr(shown));
  EXPECT_THAT(make_report({early, make_run("good", kLog)}),
              AllOf(HasSubstr("<h1>2 runs</h1>"), HasSubstr("the run ended with an error")));
  std::ofstream(early / "run.jsonl") << kStart
                                     << R"({"event":"end","iteration":7,"elapsed_s":2,"why":"it was enough"})";
  EXPECT_THAT(make_report({early}), AllOf(HasSubstr("finished: it was enough"), HasSubstr("2 s</p><p>7 steps<")));
}

}  // namespace
}  // namespace mn::report

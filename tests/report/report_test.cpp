// Pages of runs written by hand.
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/report/chart.hpp>
#include <mn/report/report.hpp>
#include <mn/report/run_files.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn::report {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

constexpr const char* kLog = R"([{"iteration": 10, "epoch": 1, "elapsed_time": 2.5, "main/loss": 3.5, "lr": 0.1},
  {"iteration": 20, "epoch": 2, "elapsed_time": 5, "main/loss": 1.25, "validation/main/loss": 1.5, "lr": 0.05}])";
constexpr const char* kStart =
    R"({"event":"start","time":1,"iteration":0,"command":["job","--x=<b>"],"hosts":["n1","n1","n2"],"device":"CPU"})"
    "\n";

std::string times(int iteration, const char* compute) {
  return R"({"event":"report","iteration":)" + std::to_string(iteration) + R"(,"data_s":[0,0,0],"compute_s":)" +
         compute + R"(,"communication_s":[0.1,0.1,0.1]})" + "\n";
}

class ReportTest : public testing::Test {
 protected:
  fs::path make_run(const std::string& name, const std::string& log, const std::string& events = "",
                    const std::string& config = "") {
    const fs::path out = folder_.path() / name;
    fs::create_directories(out);
    std::ofstream(out / "log") << log;
    if (!events.empty()) std::ofstream(out / "run.jsonl") << events;
    if (!config.empty()) std::ofstream(out / "config.ini") << config;
    return out;
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(ReportTest, ShowsCurvesTimesAndOptionsAndEscapesThem) {
  const auto out =
      make_run("<a&b>", kLog, kStart + times(10, "[1, 1, 1]") + R"({"event":"end","time":9,"iteration":20})",
               "lr = 0.1\nname = <i>\"it\"</i>\n");
  const std::string page = make_report({out});
  for (const char* shown : {"&lt;a&amp;b&gt;", "<figcaption>loss</figcaption>", "<figcaption>lr</figcaption>",
                            "validation/main/loss", "computing, ms a step", "3 (n1: 2, n2: 1)", "--x=&lt;b&gt;",
                            "&lt;i&gt;&quot;it&quot;&lt;/i&gt;", "main/loss: 1.25 at 20"}) {
    EXPECT_THAT(page, HasSubstr(shown));
  }
  for (const char* outside : {"<script", "http", "src=", "url(", "@import", "findings'"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
}

TEST_F(ReportTest, ASearchForTheLearningRateIsACurveOverTheRates) {
  const auto out = make_run("run", kLog);
  EXPECT_THAT(make_report({out}), Not(HasSubstr("Search for the learning rate")));
  const auto search = [&](const std::string& proposed) {
    std::ofstream(out / "rate_search.json")
        << R"({"rates": [0.001, 0.01, 0.1], "losses": [2, 1, null], "smoothed": [2, 1.5, null], "proposed": )"
        << proposed << "}";
    return make_report({out});
  };
  const std::string page = search("0.01");
  for (const char* shown : {"The loss falls fastest at the learning rate 0.01.", "proposed: 0.01",
                            "<figcaption>loss over the learning rate</figcaption>", "smoothed: 1.5 at -2"}) {
    EXPECT_THAT(page, HasSubstr(shown));
  }
  EXPECT_THAT(search("null"), HasSubstr("The loss fell at none of the rates."));
  EXPECT_THAT([&] { (void)search("}"); }, ThrowsMessage<DataError>(HasSubstr("rate_search.json")));
}

TEST_F(ReportTest, OneRunShowsItsBestItsEndAndWhatIsNotUsual) {
  const std::string log = R"([{"iteration": 10, "epoch": 1, "main/loss": 3.5, "validation/main/IoU": 0.25, "x": 1},
    {"iteration": 20, "epoch": 2, "main/loss": 1.25, "validation/main/IoU": 0.75, "x": 2},
    {"iteration": 30, "epoch": 3, "main/loss": 2.5, "validation/main/IoU": 0.5, "x": 3}])";
  const auto report = [](int iteration, double epoch) {
    return R"({"event":"report","iteration":)" + std::to_string(iteration) + R"(,"epoch":)" + std::to_string(epoch) +
           R"(,"data_s":[0],"compute_s":[1],"communication_s":[0]})" + "\n";
  };
  const auto out = make_run("run", log,
                            kStart + report(10, 0.5) + report(20, 1) +
                                R"({"event":"report","iteration":30,"epoch":1.5})" + "\n" +  // no step before it
                                R"({"event":"end","iteration":30,"why":"it was <enough>"})",
                            "seed = 7\n# default: 0.1\nlr = 0.2\n");
  fs::create_directories(out / "images");
  std::ofstream(out / "images" / "b.png") << "pi";
  std::ofstream(out / "images" / "a.jpg") << "pic";
  const std::string page = make_report({out});
  for (const char* shown :
       {"<th>ended because</th><td>it was &lt;enough&gt;</td>", "main/loss, best</th><td class='number'>1.25 (epoch 1)",
        "IoU, best</th><td class='number'>0.75 (epoch 1)", "main/loss: 2.5 at 1.5", "'middle'>epoch</text>",
        "<th>lr</th><td>0.2</td><td>0.1</td>", "<th>seed</th><td>7</td>", "src='data:image/png;base64,cGk='",
        "src='data:image/jpeg;base64,cGlj'"}) {
    EXPECT_THAT(page, HasSubstr(shown));
  }
  EXPECT_THAT(page, Not(HasSubstr("x, best")));
  EXPECT_LT(page.find("<th>lr</th>"), page.find("<h2>Curves</h2>"));
  EXPECT_GT(page.find("<th>seed</th>"), page.find("<h2>Curves</h2>"));
}

TEST_F(ReportTest, TheBestIsWhatTheRunMonitored) {
  const std::string log = R"([{"iteration": 10, "epoch": 1, "main/loss": 3, "main/score": 1},
    {"iteration": 20, "epoch": 2, "main/loss": 1, "main/score": 2}])";
  const auto page = [&](const std::string& monitor, const std::string& better) {
    return make_report(
        {make_run(monitor.substr(5), log, "", "monitor = " + monitor + "\nmonitor-better = " + better + "\n")});
  };
  EXPECT_THAT(page("main/score", "higher"), HasSubstr("main/score, best</th><td class='number'>2 (iteration 20)"));
  EXPECT_THAT(page("main/loss", "higher"), HasSubstr("main/loss, best</th><td class='number'>3 (iteration 10)"));
  EXPECT_THAT(page("main/loss", "auto"), HasSubstr("main/loss, best</th><td class='number'>1 (iteration 20)"));
  EXPECT_THAT(page("main/loss", "auto"), Not(HasSubstr("main/score, best")));
}

TEST_F(ReportTest, SaysWhatMinibatchesAreWaitedFor) {
  const auto report = [](const char* data_s, const char* causes) {
    return std::string(R"({"event":"report","iteration":10,"data_s":)") + data_s +
           R"(,"compute_s":[6,6],"communication_s":[0,0])" + causes + "}\n";
  };
  const char* causes = R"(,"queue_s":[0,0],"storage_s":[3,3],"transform_s":[1,1],"copy_s":[0,0])";
  const std::string page = make_report({make_run("waits", kLog, kStart + report("[4,4]", causes))});
  EXPECT_THAT(page, HasSubstr("waited 40 % of a step for minibatches, 75 % of that for the storage"));
  EXPECT_THAT(page, HasSubstr("waiting for minibatches: read, ms a step"));
  EXPECT_THAT(page, Not(HasSubstr("copied to the device")));
  const char* few = R"(,"queue_s":[0,0],"storage_s":[0,0],"transform_s":[0,0],"copy_s":[0.1,0.1])";
  EXPECT_THAT(make_report({make_run("other", kLog, kStart + report("[4,4]", few))}), Not(HasSubstr("of that for")));
  const std::string brief = make_report({make_run("brief", kLog, kStart + report("[0.1,0.1]", causes))});
  EXPECT_THAT(brief, Not(HasSubstr("of a step for minibatches")));
  const std::string old = make_report({make_run("old", kLog, kStart + report("[4,4]", ""))});
  EXPECT_THAT(old, Not(HasSubstr("of a step for minibatches")));
}

TEST_F(ReportTest, TitleNamesJobDateAndHosts) {
  std::string start = kStart;
  start.replace(start.find("\"time\":1"), 8, "\"time\":1764057600.5");
  const auto a = make_run("a", kLog, start);
  const auto b = make_run("b", kLog, start);
  EXPECT_THAT(make_report({a}),
              HasSubstr("<title>job, 2025-11-25 08:00 UTC, n1 and 1 more: " + a.string() + "</title>"));
  EXPECT_THAT(make_report({a, b}), HasSubstr("<h1>job, 2025-11-25 08:00 UTC, n1 and 1 more: 2 runs</h1>"));
  EXPECT_THAT(make_report({a, make_run("c", kLog, kStart)}), HasSubstr("<h1>job, n1 and 1 more: 2 runs</h1>"));
  EXPECT_THAT(make_report({make_run("d", kLog)}), HasSubstr("<title>"));
}

TEST_F(ReportTest, ConstantCurvesAreInTheTableAloneAndBytesAreMiB) {
  const std::string log = R"([{"iteration": 10, "lr": 0.1, "main/loss": 2, "bytes_per_step": 1048576},
    {"iteration": 20, "lr": 0.1, "main/loss": 1, "bytes_per_step": 3145728}])";
  const auto run = make_run("run", log);
  const std::string page = make_report({run});
  EXPECT_THAT(page, HasSubstr("<th>lr, constant</th><td class='number'>0.1</td>"));
  EXPECT_THAT(page, Not(HasSubstr("<figcaption>lr</figcaption>")));
  EXPECT_THAT(page, HasSubstr("<th>MiB_per_step, last</th><td class='number'>3</td>"));
  EXPECT_THAT(page, HasSubstr("<figcaption>MiB_per_step</figcaption>"));
  EXPECT_THAT(page, Not(HasSubstr("bytes_per_step")));
  EXPECT_THAT(make_report({run, make_run("other", kLog)}), HasSubstr("<figcaption>lr</figcaption>"));
}

TEST_F(ReportTest, ComparesRunsByWhatDiffers) {
  const auto a = make_run("a", kLog, "", "lr = 0.1\nseed = 7\nout = a\n");
  const auto b = make_run("b", kLog, "", "lr = 0.2\nseed = 7\nextra = 1\nout = b\n");
  const std::string page = make_report({a, b});
  EXPECT_THAT(page, HasSubstr("<th>lr</th><td>0.1</td><td>0.2</td>"));
  EXPECT_THAT(page, HasSubstr("<th>extra</th><td></td><td>1</td>"));
  EXPECT_THAT(page, Not(HasSubstr("<th>seed</th>")));
  EXPECT_THAT(page, Not(HasSubstr("<th>out</th>"))) << "the columns have that name";
  EXPECT_THAT(page, HasSubstr("b: main/loss"));
}

TEST_F(ReportTest, FindsWhatIsWorthALook) {
  const auto findings = [&](const std::string& log, const std::string& events) {
    return findings_of(read_run(make_run("run", log, events)));
  };
  EXPECT_THAT(findings(kLog, kStart + times(10, "[1, 2, 1]")),
              ElementsAre(HasSubstr("has not ended"), HasSubstr("rank 1 on host n1 computed 2 times")));
  EXPECT_THAT(findings(kLog, kStart + times(10, "[2, 1]")),
              ElementsAre(HasSubstr("has not ended"), HasSubstr("rank 0 on host n1 computed 2 times")));
  const std::string end = R"({"event":"end","iteration":20})";
  EXPECT_THAT(findings(R"([{"iteration": 3, "main/loss": null}])", kStart + end),
              ElementsAre("main/loss was NaN or infinite at iteration 3"));
  const std::string warned = R"({"event":"end","iteration":20,"warnings":["rank 1 (n1): hot"]})"
                             "\n";
  EXPECT_THAT(findings(kLog, kStart + warned + warned), ElementsAre("warning of rank 1 (n1): hot"));
}

TEST_F(ReportTest, AResumeReplacesWhatFollowsItsCheckpoint) {
  std::string again = kStart;
  again.replace(again.find("\"iteration\":0"), 13, "\"iteration\":10");
  const std::string cut = "{\"event\":\"rep\n";
  const auto read = read_run(
      make_run("run", kLog, kStart + times(10, "[1]") + times(20, "[2]") + cut + again + times(20, "[3]") + "{\"eve"));
  ASSERT_EQ(read.times.size(), 2U);
  EXPECT_EQ(read.times[1].at("compute_s").at(0), 3);
  EXPECT_EQ(read.resumes, 1);
  EXPECT_FALSE(read.ended);
}

TEST_F(ReportTest, WhatIsAbsentOrDamagedIsOneLine) {
  EXPECT_THAT([&] { (void)make_report({"/absent"}); }, ThrowsMessage<DataError>(HasSubstr("there is no /absent/log")));
  for (const char* log : {"", "{", "3", "[3]", R"([{"epoch": 1}])", R"([{"iteration": "x"}])"}) {
    EXPECT_THAT([&] { (void)make_report({make_run("bad", log)}); },
                ThrowsMessage<DataError>(testing::AllOf(HasSubstr("bad/log"), Not(HasSubstr("\n")))))
        << log;
  }
  for (const char* events : {"x\n{}\n", "{}\n{}\n", "{\"event\":\"report\",\"iteration\":1}\n{}\n",
                             "{\"event\":\"start\",\"iteration\":1,\"command\":7}\n{}\n"}) {
    EXPECT_THAT([&] { (void)make_report({make_run("bad", kLog, events)}); },
                ThrowsMessage<DataError>(HasSubstr("bad/run.jsonl")))
        << events;
  }
  EXPECT_THAT(make_report({make_run("empty", "[]")}), HasSubstr("</html>"));
}

TEST(ChartTest, LeavesOutWhatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(draw_chart("t", "x", {{"a", {{1, nan}}, 0, false}, {"b", {}, 1, false}}), "");
  const std::string one = draw_chart("t", "x", {{"a", {{1, 5}, {2, nan}}, 0, false}});
  EXPECT_THAT(one, HasSubstr("a: 5 at 1"));
  EXPECT_THAT(one, Not(HasSubstr("nan")));
}

TEST(ChartTest, ZeroHasNoSign) {
  const std::string chart = draw_chart("t", "x", {{"a", {{0, -0.5}, {100, 0.5}}, 0, false}});
  EXPECT_THAT(chart, HasSubstr(">0</text>"));
  EXPECT_THAT(chart, Not(HasSubstr(">-0</text>")));
}

}  // namespace
}  // namespace mn::report

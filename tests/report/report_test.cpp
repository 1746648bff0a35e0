// Pages of runs written by hand.
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/unix_time.hpp>
#include <mn/report/make_report.hpp>

#include "tests/report/report_fixture.hpp"

namespace mn::report {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST_F(ReportTest, ShowsCurvesTimesAndOptionsAndEscapesThem) {
  const auto out = make_run("<a&b>", kLog, kStart + times(10) + kEnd,
                            "lr = 0.1\nname = <i>\"it\"</i>\n# no effect in this run\nbeta1 = 0.9\n");
  const std::string page = make_report({out});
  for (const char* shown : {"&lt;a&amp;b&gt;", "<span>loss</span>", "<span>learning rate</span>", "validation loss",
                            "3 (n1: 2, n2: 1)", "--x=&lt;b&gt;", "&lt;i&gt;&quot;it&quot;&lt;/i&gt;", ",20,1.25;",
                            "Without an effect in this run: beta1", "rank 2 (n2)", "Nothing stands out."}) {
    EXPECT_THAT(page, HasSubstr(shown));
  }
  for (const char* outside : {"<script src", "http:", "https:", "src=", "url(", "@import", "refresh"}) {
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
                            "<span>loss over the learning rate</span>", ",-2,1.5;"}) {
    EXPECT_THAT(page, HasSubstr(shown));
  }
  EXPECT_THAT(search("null"), HasSubstr("The loss fell at none of the rates."));
  EXPECT_THAT([&] { (void)search("}"); }, ThrowsMessage<DataError>(HasSubstr("rate_search.json")));
}

TEST_F(ReportTest, TheTopAnswersWhetherHowGoodAndHowLong) {
  const std::string log = R"([{"iteration": 10, "elapsed_time": 2, "main/loss": 3.5, "validation/main/IoU": 0.25},
    {"iteration": 20, "elapsed_time": 4, "main/loss": 1.25, "validation/main/IoU": 0.75, "images_per_second": 500},
    {"iteration": 30, "elapsed_time": 5, "main/loss": 1, "validation/main/IoU": 0.5, "images_per_second": 500}])";
  const std::string facts =
      R"("run":{"parameters":89610,"samples":60000,"global_batch":200,"unit":"tokens","units_per_sample":4,)"
      R"("device":"Some GPU","mn":"1.2","torch":"2.11.0","used":{"lr":"0.001"}},)";
  std::string start = kStart;
  start.insert(start.find("\"time\""), facts);
  const std::string page =
      page_of(log,
              start + times(10, R"(,"epoch":0.5)") + times(20, R"(,"epoch":1)") + times(30, R"(,"epoch":1.5)") +
                  R"({"event":"end","iteration":30,)" + R"("elapsed_s":3723,"why":"it was <enough>"})",
              "# default: 1\nseed = 7\nlr = 0\n");
  for (const char* shown :
       {"finished: it was &lt;enough&gt;", "validation IoU</p><p class='value'>0.5</p><p>best 0.75, epoch 1<",
        "training loss</p><p class='value'>1</p><p>its best value, epoch 1.5<", "1 h 2 min</p><p>1.5 epochs, 30 steps",
        "tokens/s</p><p class='value'>2,000</p><p>667 on each rank", "3 on 2</p><p>Some GPU", "89,610", "60,000",
        "mn 1.2, libtorch 2.11.0", "<th>seed</th><td>7</td><td class='set'>1</td>", "<th>lr</th><td>0.001</td>"}) {
    EXPECT_THAT(page, HasSubstr(shown));
  }
  EXPECT_LT(page.find("What to look at"), page.find("<h2>Curves"));
  EXPECT_LT(page.find("<th>seed</th>"), page.find("<th>lr</th>"));
}

TEST_F(ReportTest, TheBestIsWhatTheRunMonitored) {
  const std::string log = R"([{"iteration": 10, "epoch": 1, "main/loss": 3, "main/score": 1},
    {"iteration": 20, "epoch": 2, "main/loss": 1, "main/score": 2}])";
  const auto page = [&](const std::string& monitor, const std::string& better) {
    return page_of(log, "", "monitor = " + monitor + "\nmonitor-better = " + better + "\n");
  };
  EXPECT_THAT(page("main/score", "higher"), HasSubstr("training score</p><p class='value'>2</p><p>its best value, it"));
  EXPECT_THAT(page("main/loss", "higher"), HasSubstr("<p>best 3, iteration 10"));
  EXPECT_THAT(page("main/loss", "auto"), HasSubstr("<p>its best value, iteration 20"));
}

/// A log of sets with names, whose main values improve and then get worse.
std::string log_of_sets(const std::string& first, const std::string& second) {
  std::string log;
  for (const auto& [iteration, loss] :
       {std::pair(1, "0.5"), std::pair(2, "0.25"), std::pair(3, "0.3"), std::pair(4, "0.4")}) {
    log += (iteration > 1 ? ",{" : "{") + std::string(R"("iteration":)") + std::to_string(iteration) +
           R"(,"main/loss":)" + std::to_string(1.0 / iteration) + R"(,"validation/)" + first + R"(/main/loss":)" +
           loss + R"(,"validation/)" + second + R"(/main/loss":7})";
  }
  return "[" + log + "]";
}

TEST_F(ReportTest, TheFirstSetOfValidationIsTheMainOne) {
  const std::string page = page_of(log_of_sets("new", "all"), "", "val = new=x,all=y\n");
  EXPECT_THAT(page, HasSubstr("validation new loss</p><p class='value'>0.4</p><p>best 0.25, iteration 2<"));
  EXPECT_THAT(page, HasSubstr("validation new loss was best in iteration 2 (0.25) and is 0.4 now: the model overfits"));
  EXPECT_THAT(page, Not(HasSubstr("main/loss")));
  EXPECT_THAT(page_of(log_of_sets("a", "b"), "", "val = x\n"), HasSubstr("validation a loss</p><p class='value'>0.4<"));
}

TEST_F(ReportTest, ComparesRunsByTheirMainSets) {
  const auto a = make_run("runs/a", log_of_sets("new", "all"), "", "val = new=x,all=y\n");
  const auto same = make_run("runs/same", log_of_sets("new", "all"), "", "val = new=x,all=y\n");
  EXPECT_THAT(make_report({a, same}), AllOf(HasSubstr("<th class='number'>best validation new loss</th>"),
                                            HasSubstr("<span>validation new loss</span>")));
  const std::string page = make_report({make_run("runs/plain", kLog), a});
  EXPECT_THAT(page, HasSubstr("<th class='number'>best validation loss</th>"));
  EXPECT_LT(page.find("data-value='0.25'>0.25</td><td class=''>iteration 2<"),
            page.find("data-value='1.5'>1.5</td><td class=''>iteration 20<"));
  EXPECT_THAT(page, HasSubstr("<span>validation loss</span>"));
  EXPECT_THAT(page, Not(HasSubstr("<span>validation new loss</span>"))) << "the common chart shows it";
}

TEST_F(ReportTest, ARunThatGoesOnReloadsItsPageAndSaysHowLongItTakes) {
  std::string start = kStart;
  start.replace(start.find("\"time\":1"), 8, "\"run\":{\"epochs\":8},\"time\":" + std::to_string(unix_time()));
  const std::string page = page_of(kLog, start + times(20, R"(,"epoch":2)"));
  EXPECT_THAT(page, HasSubstr("running, 25 % done, about 15 s left"));
  EXPECT_THAT(page, HasSubstr("http-equiv='refresh'"));
  const std::string stopped = R"({"event":"end","iteration":20,"why":"SIGTERM asked for it, after a checkpoint"})";
  EXPECT_THAT(page_of(kLog, start + times(20) + stopped), HasSubstr("class='state warn'>stopped at 25 %"));
  EXPECT_THAT(page_of(kLog, kStart + times(20)), AllOf(HasSubstr("no end"), Not(HasSubstr("refresh"))));
}

TEST_F(ReportTest, TimeIsABarOfParts) {
  const std::string page = page_of(kLog, kStart + times(10, R"(,"validation_s":0.5)") +
                                             times(20, R"(,"validation_s":0.5,"checkpoint_s":0.3)") + kEnd);
  // Of 6 s: 20 steps of 0.2 + 0.1 s are all, so that 1.3 s of pauses leave nothing for the rest.
  EXPECT_THAT(page, HasSubstr("computing <b>54.8 %</b> (4 s)"));
  EXPECT_THAT(page, HasSubstr("validation <b>13.7 %</b> (1 s)"));
  EXPECT_THAT(page, HasSubstr("checkpoints <b>4.1 %</b> (0.3 s)"));
  EXPECT_THAT(page, Not(HasSubstr("other <b>")));
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
  EXPECT_THAT(page, HasSubstr("<th>learning rate, constant</th><td class='number'>0.1</td>"));
  EXPECT_THAT(page, Not(HasSubstr("<span>learning rate</span>")));
  EXPECT_THAT(page, HasSubstr("<th>MiB per step</th><td class='number'>3</td>"));
  EXPECT_THAT(page, HasSubstr("<span>MiB per step</span>"));
  EXPECT_THAT(make_report({run, make_run("other", kLog)}), HasSubstr("<span>learning rate</span>"));
}

TEST_F(ReportTest, ComparesRunsTheBestFirst) {
  const auto a = make_run("runs/a", kLog, "", "lr = 0.1\nseed = 7\nout = a\n");
  std::string better = kLog;
  better.replace(better.find("1.5"), 3, "0.5");
  const auto b = make_run("runs/b", better, "", "lr = 0.2\nseed = 7\nonly-here = 1\nout = b\n");
  const std::string page = make_report({a, b});
  EXPECT_LT(page.find("<tr data-run='b'>"), page.find("<tr data-run='a'>"));
  EXPECT_THAT(page, HasSubstr("<th>lr</th>"));
  EXPECT_THAT(page, HasSubstr("<td class=''>0.2</td>"));
  EXPECT_THAT(page, Not(HasSubstr("only-here"))) << "the other run does not have this option";
  EXPECT_THAT(page, HasSubstr("class='number best' data-value='0.5'>0.5</td>"));
  EXPECT_THAT(page, Not(HasSubstr("<th>seed</th>")));
  EXPECT_THAT(page, Not(HasSubstr("<th>out</th>"))) << "the rows have that name";
  EXPECT_THAT(page, HasSubstr("data-name='b'"));
}

TEST_F(ReportTest, AnOptionWithSeveralValuesShowsAndComparesAll) {
  const auto config = [](const std::string& rate) {
    return "# default: \ngroup = l1:rate=" + rate + "\ngroup = *.bias:rate=3\nlr = 1\n";
  };
  const auto a = make_run("a", kLog, "", config("0.1"));
  EXPECT_THAT(make_report({a}), HasSubstr("<th>group</th><td>l1:rate=0.1; *.bias:rate=3</td><td class='set'>none<"));
  EXPECT_THAT(make_report({a, make_run("b", kLog, "", config("0.2"))}),
              AllOf(HasSubstr("<th>group</th>"), HasSubstr("l1:rate=0.2; *.bias:rate=3<")));
}

TEST_F(ReportTest, OfManyOptionsThatDifferThoseWithoutDefaultsHaveColumns) {
  const auto config = [](const std::string& value) {
    std::string lines;
    for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) lines += std::string(name) + " = " + value + "\n";
    return lines + "# default: 0\nh = " + value + "\n";
  };
  const std::string page = make_report({make_run("x", kLog, "", config("1")), make_run("y", kLog, "", config("2"))});
  EXPECT_THAT(page, HasSubstr("<th>h</th><th>a</th><th>b</th><th>c</th><th>d</th><th>e</th><th class='number'>time"));
  EXPECT_THAT(page, HasSubstr("Other options that differ: f, g<"));
}

TEST_F(ReportTest, OptionsWithMoreValuesComeFirstAndThoseWithoutEffectLast) {
  const auto run = [&](const std::string& value, const std::string& other) {
    const std::string config = "# no effect in this run\na = " + value + "\nb = " + other + "\nc = " + value + "\n";
    return make_run(value, kLog, "", config);
  };
  EXPECT_THAT(make_report({run("1", "1"), run("2", "1"), run("3", "2")}),
              HasSubstr("<th>c</th><th>b</th><th>a</th><th class='number'>time"));
}

TEST_F(ReportTest, SpeedsOfDifferentUnitsEachHaveTheirUnit) {
  const std::string log = R"([{"iteration": 10, "main/loss": 1, "images_per_second": 20}, {"iteration": 20,
    "main/loss": 1, "images_per_second": 30}])";
  const auto run = [&](const std::string& name, const std::string& facts) {
    std::string start = kStart;
    return make_run(name, log, start.insert(1, R"("run":{)" + facts + "},"));
  };
  const auto images = run("images", R"("unit":"images")");
  const auto tokens = run("tokens", R"("unit":"tokens","units_per_sample":100)");
  const std::string page = make_report({images, tokens});
  for (const char* shown :
       {"<th class='number'>speed</th>", ">20 images/s</td>", ">2,000 tokens/s</td>", "<span>speed<"}) {
    EXPECT_THAT(page, HasSubstr(shown));
  }
  EXPECT_THAT(make_report({images, run("more", R"("unit":"images")")}),
              AllOf(HasSubstr("<th class='number'>images/s</th>"), HasSubstr(">20</td>")));
}

TEST_F(ReportTest, ShowsImagesAndTextsTheNewestFirst) {
  const auto out = make_run("run", kLog);
  fs::create_directories(out / "images");
  fs::create_directories(out / "texts");
  std::ofstream(out / "images" / "b-00000020.png") << "pi";
  std::ofstream(out / "images" / "b-00000100.png") << "pj";
  std::ofstream(out / "images" / "a.jpg") << "pic";
  std::ofstream(out / "texts" / "poem-00000020.txt") << "<roses>";
  std::ofstream(out / "texts" / "bytes.txt") << "a\xFF z\xC3";
  std::ofstream(out / "texts" / "long.txt") << std::string(3999, 'x') << "é";
  const std::string page = make_report({out});
  for (const char* shown : {"src='data:image/png;base64,cGk='", "src='data:image/jpeg;base64,cGlj'", "step 100<",
                            "<p>poem</p>", "<pre>&lt;roses&gt;</pre>", "<pre>a\uFFFD z\uFFFD</pre>", "xx…</pre>"}) {
    EXPECT_THAT(page, HasSubstr(shown));
  }
  EXPECT_LT(page.find("step 100<"), page.find("step 20<"));
}

TEST_F(ReportTest, ShowsTheAccountOfMemory) {
  const auto out = make_run("run", kLog);
  EXPECT_THAT(make_report({out}), Not(HasSubstr("<h2>Memory")));
  std::ofstream(out / "memory.txt") << "> 2 ranks  16 MiB";
  EXPECT_THAT(make_report({out}), HasSubstr("<pre>&gt; 2 ranks  16 MiB</pre>"));
}

TEST_F(ReportTest, WhatIsAbsentOrDamagedIsOneLine) {
  EXPECT_THAT([&] { (void)make_report({"/absent"}); }, ThrowsMessage<DataError>(HasSubstr("there is no /absent/log")));
  for (const char* log : {"", "{", "{}", "3", "[3]", R"([{"epoch": 1}])", R"([{"iteration": "x"}])"}) {
    EXPECT_THAT([&] { (void)make_report({make_run("bad", log)}); },
                ThrowsMessage<DataError>(AllOf(HasSubstr("bad/log"), Not(HasSubstr("\n")), Not(HasSubstr("json.")))))
        << log;
  }
  for (const char* events :
       {"x\n{}\n", "{}\n{}\n", "{\"event\":\"report\",\"iteration\":1}\n{}\n",
        "{\"event\":\"start\",\"iteration\":1,\"command\":7}\n{}\n",
        "{\"event\":\"start\",\"iteration\":1,\"time\":1,\"command\":[],\"hosts\":[],\"device\":\"\",\"run\":3}\n"}) {
    EXPECT_THAT([&] { (void)make_report({make_run("bad", kLog, events)}); },
                ThrowsMessage<DataError>(HasSubstr("bad/run.jsonl")))
        << events;
  }
  EXPECT_THAT(make_report({make_run("empty", "[]")}), HasSubstr("</html>"));
}

TEST_F(ReportTest, AComparisonLeavesOutDamagedRuns) {
  const auto good = make_run("good", kLog), cut = make_run("cut", R"([{"a":1)"), other = make_run("other", "{}");
  std::vector<std::string> notes;
  const auto note = [&](const std::string& text) { notes.push_back(text); };
  EXPECT_THAT(make_report({cut, good, make_run("too", kLog), other}, note), HasSubstr("<h1>2 runs</h1>"));
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("cut is left out: "), HasSubstr("other is left out: ")));
  EXPECT_THAT([&] { (void)make_report({cut, other}); }, ThrowsMessage<DataError>(HasSubstr("no run is left")));
  EXPECT_THAT([&] { (void)make_report({good, "/absent"}); }, ThrowsMessage<DataError>(HasSubstr("/absent/log")));
}

}  // namespace
}  // namespace mn::report

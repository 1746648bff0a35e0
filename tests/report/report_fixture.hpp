/// Folders of runs that tests write by hand, and the pages of them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <mn/report/make_report.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn::report {

inline constexpr const char* kLog = R"([{"iteration": 10, "epoch": 1, "elapsed_time": 2.5, "main/loss": 3.5, "lr": 0.1},
  {"iteration": 20, "epoch": 2, "elapsed_time": 5, "main/loss": 1.25, "validation/main/loss": 1.5, "lr": 0.05}])";
inline constexpr const char* kStart =
    R"({"event":"start","time":1,"iteration":0,"command":["job","--x=<b>"],"hosts":["n1","n1","n2"],"device":"CPU"})"
    "\n";
inline constexpr const char* kEnd =
    R"({"event":"end","time":9,"iteration":20,"elapsed_s":6,"why":"2 epochs are over"})";

inline std::string times(int iteration, const std::string& more = "") {
  return R"({"event":"report","iteration":)" + std::to_string(iteration) +
         R"(,"data_s":[0,0,0],"compute_s":[0.2,0.2,0.2],"communication_s":[0.1,0.1,0.1])" + more + "}\n";
}

class ReportTest : public testing::Test {
 protected:
  std::filesystem::path make_run(const std::string& name, const std::string& log, const std::string& events = "",
                                 const std::string& config = "") {
    const std::filesystem::path out = folder_.path() / name;
    std::filesystem::create_directories(out);
    std::ofstream(out / "log") << log;
    std::filesystem::remove(out / "run.jsonl");
    if (!events.empty()) std::ofstream(out / "run.jsonl") << events;
    if (!config.empty()) std::ofstream(out / "config.ini") << config;
    return out;
  }
  std::string page_of(const std::string& log, const std::string& events = "", const std::string& config = "") {
    return make_report({make_run("run", log, events, config)});
  }

 private:
  test::TemporaryFolder folder_;
};

}  // namespace mn::report

#include "launcher/options.hpp"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>

#include "launcher/option_table.hpp"

namespace mn::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Options parse(std::vector<const char*> words) {
  words.insert(words.begin(), "mnlaunch");
  return parse_options(static_cast<int>(words.size()), words.data());
}

std::string error_of(const std::vector<const char*>& words) {
  try {
    static_cast<void>(parse(words));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(OptionsTest, WhatFollowsTheProgramIsItsOwn) {
  const auto options = parse({"--check", "strict", "--show", "jobs/mnist", "--check", "x", "--help"});
  EXPECT_EQ(options.check, CheckLevel::kStrict);
  EXPECT_TRUE(options.show);
  EXPECT_EQ(options.action, Action::kLaunch);
  EXPECT_THAT(options.program, ElementsAre("jobs/mnist", "--check", "x", "--help"));
}

TEST(OptionsTest, DashesEndTheOptions) {
  EXPECT_THAT(parse({"--json", "--", "--odd-name", "a"}).program, ElementsAre("--odd-name", "a"));
  EXPECT_THAT(parse({"--", "prog", "--"}).program, ElementsAre("prog", "--"));
}

TEST(OptionsTest, RepeatedFilesAddUpAndTheLastChoiceWins) {
  const auto options = parse({"--check-file=a", "--check-file", "b", "--check=off", "--check=warn", "true"});
  EXPECT_THAT(options.check_files, ElementsAre("a", "b"));
  EXPECT_EQ(options.check, CheckLevel::kWarn);
}

TEST(OptionsTest, DryRunShows) { EXPECT_TRUE(parse({"--dry-run"}).show); }

TEST(OptionsTest, ErrorsNameTheOption) {
  EXPECT_EQ(error_of({"--shwo", "true"}), "unknown option --shwo; did you mean --show?");
  EXPECT_EQ(error_of({"--chek=off", "true"}), "unknown option --chek; did you mean --check?");
  EXPECT_EQ(error_of({"-n", "4", "true"}), "unknown option -n; mnlaunch --help lists all");
  EXPECT_EQ(error_of({"--check", "maybe", "true"}), "--check is \"maybe\": use one of off|warn|strict");
  EXPECT_THAT(error_of({}), HasSubstr("no PROGRAM given"));
  EXPECT_THAT(error_of({"--check"}), HasSubstr("--check"));
  EXPECT_THAT(error_of({"--show=yes", "true"}), HasSubstr("show"));
}

TEST(OptionsTest, HelpFitsOneScreen) {
  std::istringstream lines(help_text());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_LE(count, 24);
}

TEST(OptionsTest, HelpAndManualHaveEveryOption) {
  std::string manual = manual_page();
  std::erase(manual, '\\');
  for (const auto& option : kOptions) {
    EXPECT_THAT(help_text(), HasSubstr(std::string("--") + option.name));
    EXPECT_THAT(manual, HasSubstr(std::string("--") + option.name));
  }
}

}  // namespace
}  // namespace mn::launcher

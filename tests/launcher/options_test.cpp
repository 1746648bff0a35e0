#include "launcher/cli/options.hpp"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>

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

Options parse_with(const std::vector<Preset>& presets, std::vector<const char*> words) {
  words.insert(words.begin(), "mnlaunch");
  return parse_options(static_cast<int>(words.size()), words.data(), presets);
}

std::string error_with(const Preset& preset) {
  try {
    static_cast<void>(parse_with({preset}, {"true"}));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(OptionsTest, PresetsCountForLessThanWhatFollowsThem) {
  const auto options = parse_with({{"the site", "# of the site\n--check off --skip clock\n--bind none # all\n"},
                                   {"the user", "--check=strict --skip cpu"}},
                                  {"--bind", "auto", "--skip", "user,tmp", "true", "--skip"});
  EXPECT_EQ(options.check, CheckLevel::kStrict);
  EXPECT_TRUE(options.bind);
  EXPECT_THAT(options.skip, ElementsAre("clock", "cpu", "user", "tmp"));
  EXPECT_THAT(options.program, ElementsAre("true", "--skip"));
}

TEST(OptionsTest, EachOptionMayComeFromSeveralSources) {
  for (const auto& option : option_table()) {
    const std::string value = option.value;
    std::string word = std::string("--") + option.name;
    if (!value.empty()) word += "=" + (value.find('|') != std::string::npos ? value.substr(0, value.find('|')) : "7");
    if (word == "--output=DIR" || word == "--skip=7" || word == "--warn=7")
      word = word.substr(0, word.find('=')) + "=user";
    if (word == "--ports=7") word = "--ports=40000-40009";
    const char* action = word.starts_with("--expect") || word == "--node-check" ? "--node-check" : "--doctor";
    EXPECT_NO_THROW(parse_with({{"F", word}, {"V", word}}, {word.c_str(), word.c_str(), "--output", "o", action}))
        << word;
  }
  const auto options = parse_with({{"F", "--show --label"}, {"V", "--show"}}, {"--show", "--label", "true"});
  EXPECT_TRUE(options.show && options.label);
}

TEST(OptionsTest, APresetMayHoldWhatOnlySomeStartsNeed) {
  const auto options = parse_with({{"F", "--append --history f --save g --against h"}}, {"true"});
  EXPECT_TRUE(options.append);
  EXPECT_THAT(options.program, ElementsAre("true"));
}

TEST(OptionsTest, ErrorsOfPresetsNameThem) {
  EXPECT_EQ(error_with({"F", "--shwo"}), "F: unknown option --shwo; did you mean --show?");
  EXPECT_EQ(error_with({"F", "--show true"}), "F: \"true\" is not an option; PROGRAM belongs on the command line");
  EXPECT_EQ(error_with({"F", "--show -- --json"}), "F: \"--\" is not an option; PROGRAM belongs on the command line");
  EXPECT_EQ(error_with({"F", "--check maybe"}), "F: --check is \"maybe\": use one of off|warn|strict");
  EXPECT_THAT(error_with({"F", "--check"}), ::testing::StartsWith("F: "));
}

TEST(OptionsTest, UnknownChecksAreAnErrorThatListsTheKnownOnes) {
  for (const char* option : {"--skip", "--warn"}) {
    const std::string error = error_of({option, "gpu-health,gpu-helth", "true"});
    EXPECT_THAT(error, ::testing::StartsWith(std::string(option) + " gpu-helth: there is no such check; there are "));
    for (const char* name : {"sources, ", ", libraries", ", gpu-health", ", fabric", ", output"}) {
      EXPECT_THAT(error, HasSubstr(name));
    }
  }
  EXPECT_THAT(parse({"--warn", "libraries", "true"}).warn, ElementsAre("libraries"));
  EXPECT_EQ(error_of({"--skip", "files,,user", "true"}), "--skip \"files,,user\" has an empty name");
  EXPECT_EQ(error_of({"--skip", "", "true"}), "--skip \"\" has an empty name");
}

TEST(OptionsTest, TimeOutAndPorts) {
  const auto usual = parse({"true"});
  EXPECT_EQ(usual.timeout_s, 60);
  EXPECT_THAT(usual.ports, ElementsAre(PortRange{20000, 31999}, PortRange{8000, 19999}));
  const auto set = parse_with({{"F", "--timeout 5 --ports 40000-40099"}}, {"--timeout", "7", "true"});
  EXPECT_EQ(set.timeout_s, 7);
  EXPECT_THAT(set.ports, ElementsAre(PortRange{40000, 40099}));
  for (const char* wrong : {"0", "-1", "1.5", "soon", "99999999999"}) {
    EXPECT_EQ(error_of({"--timeout", wrong, "true"}),
              "--timeout is \"" + std::string(wrong) + "\": give seconds, at least 1");
  }
  for (const char* wrong : {"40000", "40099-40000", "80-90", "60000-70000", "4-5-6", "a-b", "-"}) {
    EXPECT_EQ(error_of({"--ports", wrong, "true"}),
              "--ports is \"" + std::string(wrong) + "\": give FIRST-LAST, from 1024 to 65535");
  }
}

TEST(OptionsTest, MapsOfCpus) {
  EXPECT_THAT(parse({"--cpu-map", "0-1,8:2", "true"}).cpu_map, ElementsAre(CpuSet{0, 1, 8}, CpuSet{2}));
  EXPECT_THAT(error_of({"--cpu-map", "0-1:x", "true"}), HasSubstr("\"x\" is not a list of CPUs"));
  EXPECT_THAT(error_of({"--cpu-map", "0-1::2", "true"}), HasSubstr("\"\" is not a list of CPUs"));
  EXPECT_THAT(error_of({"--cpu-map", "", "true"}), HasSubstr("--cpu-map is empty"));
}

TEST(OptionsTest, ReportsOfTheDoctorNeedTheDoctor) {
  EXPECT_EQ(error_of({"--save", "f", "true"}), "--save needs --doctor");
  EXPECT_EQ(error_of({"--against", "f", "true"}), "--against needs --doctor");
  EXPECT_EQ(parse_with({{"F", "--save f"}}, {"--doctor"}).save, "f");
  EXPECT_EQ(error_of({"--append", "true"}), "--append needs --output");
  EXPECT_EQ(error_of({"--expect", "f", "true"}), "--expect needs --node-check");
  EXPECT_EQ(parse_with({{"F", "--expect f"}}, {"true"}).expect, "f");
  for (const char* other : {"ls", "--doctor", "--dry-run"})
    EXPECT_THAT(error_of({"--node-check", other}), HasSubstr("looks at this node alone"));
}

TEST(OptionsTest, WhatAllRanksMustHaveLeavesOutWhatIsAsUsual) {
  const auto words = [](const std::vector<const char*>& given) { return words_of_all_ranks(parse(given)); };
  EXPECT_THAT(words({"--check", "warn", "--ports", "20000-20001", "--label", "--timeout", "3", "true"}),
              ElementsAre("--ports 20000-20001"));
  EXPECT_THAT(words({"--check=off", "--check-file", "a", "--doctor", "--dry-run"}),
              ElementsAre("--check off", "--check-file a", "--doctor", "--dry-run"));
  EXPECT_THAT(words({"true"}), ElementsAre());
}

TEST(OptionsTest, HelpFitsOneScreen) {
  std::istringstream lines(help_text());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_LE(count, 34);
}

TEST(OptionsTest, HelpAndManualHaveEveryOption) {
  std::string manual = manual_page();
  std::erase(manual, '\\');
  for (const auto& option : option_table()) {
    EXPECT_THAT(help_text(), HasSubstr(std::string("--") + option.name));
    EXPECT_THAT(manual, HasSubstr(std::string("--") + option.name));
  }
}

}  // namespace
}  // namespace mn::launcher

#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/options.hpp>

namespace mn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() {
    options_.add("batchsize", batchsize_, "samples of a minibatch on each rank", 1);
    options_.add("epoch", epoch_, "epochs to train", 0);
    options_.add("seed", seed_, "seed of everything random");
    options_.add("communicator", communicator_, "NAME", "how ranks talk", {"auto", "naive", "flat"});
    options_.add("device", device_, "auto|cpu|cuda", "where to compute");
    options_.add("resume", resume_, "PATH|auto", "go on from a checkpoint");
    options_.add_flag("deterministic", deterministic_, "same bits from run to run");
    options_.set_bare("resume", "auto");
    options_.add_alias("gpu", "device", "cuda");
  }

  Options::Action parse(std::vector<const char*> words) {
    words.insert(words.begin(), "jobs/test");
    return options_.parse(static_cast<int>(words.size()), words.data());
  }
  std::string error_of(const std::vector<const char*>& words) {
    try {
      (void)parse(words);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  }
  std::string file(const std::string& text) {
    const std::string path = ::testing::TempDir() + "/options_test." + std::to_string(getpid()) + ".ini";
    std::ofstream(path) << text;
    return path;
  }

  std::int64_t batchsize_ = 100, epoch_ = 20, seed_ = 0;
  std::string communicator_ = "auto", device_ = "auto", resume_;
  bool deterministic_ = false;
  Options options_{"jobs/test [options]: tests"};
};

TEST_F(OptionsTest, DefaultsStayWithoutArguments) {
  EXPECT_EQ(parse({}), Options::Action::kRun);
  EXPECT_EQ(batchsize_, 100);
  EXPECT_EQ(communicator_, "auto");
}

TEST_F(OptionsTest, TakesBothForms) {
  (void)parse({"--batchsize", "32", "--epoch=3", "--communicator=flat", "--seed", "-7"});
  EXPECT_EQ(batchsize_, 32);
  EXPECT_EQ(epoch_, 3);
  EXPECT_EQ(communicator_, "flat");
  EXPECT_EQ(seed_, -7);
}

TEST_F(OptionsTest, NumbersMayHaveFractions) {
  double rate = 0.1;
  options_.add("lr", rate, "learning rate", 0, 10);
  (void)parse({"--lr", "2.5e-3"});
  EXPECT_EQ(rate, 0.0025);
  EXPECT_THAT(options_.ini(), HasSubstr("lr = 0.0025\n"));
  EXPECT_EQ(error_of({"--lr", "fast"}), "--lr \"fast\" is not a number");
  EXPECT_EQ(error_of({"--lr", "nan"}), "--lr \"nan\" is not a number");
  EXPECT_EQ(error_of({"--lr", "0.1x"}), "--lr \"0.1x\" is not a number");
  EXPECT_EQ(error_of({"--lr", "-0.5"}), "--lr \"-0.5\" must be at least 0");
  EXPECT_EQ(error_of({"--lr", "11"}), "--lr \"11\" must be at most 10");
}

TEST_F(OptionsTest, TheLastOneWins) {
  (void)parse({"--epoch", "3", "--epoch", "4"});
  EXPECT_EQ(epoch_, 4);
}

TEST_F(OptionsTest, OptionalValueMayFollowOrBeAbsent) {
  (void)parse({"--resume", "result/checkpoint-5"});
  EXPECT_EQ(resume_, "result/checkpoint-5");
  (void)parse({"--resume", "--epoch", "2"});
  EXPECT_EQ(resume_, "auto");
  EXPECT_EQ(epoch_, 2);
  (void)parse({"--resume=x"});
  EXPECT_EQ(resume_, "x");
  options_.set_bare("device", "on");  // an option with other values than a flag's
  (void)parse({"--device", "auto"});
  EXPECT_EQ(device_, "auto");
}

TEST_F(OptionsTest, FlagIsOnAloneAndCanBeSetOff) {
  (void)parse({"--deterministic"});
  EXPECT_TRUE(deterministic_);
  (void)parse({"--deterministic=off"});
  EXPECT_FALSE(deterministic_);
  EXPECT_THAT(error_of({"--deterministic=maybe"}), HasSubstr("--deterministic \"maybe\" is neither on nor off"));
}

TEST_F(OptionsTest, AliasSetsItsOption) {
  (void)parse({"--gpu"});
  EXPECT_EQ(device_, "cuda");
  (void)parse({"--gpu", "cuda:1"});
  EXPECT_EQ(device_, "cuda:1");
}

TEST_F(OptionsTest, UnknownOptionNamesTheNearest) {
  EXPECT_EQ(error_of({"--batchsise", "5"}), "unknown option --batchsise; did you mean --batchsize?");
  EXPECT_EQ(error_of({"--batchsise=5"}), "unknown option --batchsise; did you mean --batchsize?");
  EXPECT_EQ(error_of({"--epochs", "5"}), "unknown option --epochs; did you mean --epoch?");
  EXPECT_EQ(error_of({"--helpp"}), "unknown option --helpp; did you mean --help?");
  EXPECT_EQ(error_of({"--frobnicate"}), "unknown option --frobnicate; --help lists all");
}

TEST_F(OptionsTest, AbbreviationIsNotGuessed) {
  EXPECT_EQ(error_of({"--batch", "5"}), "unknown option --batch; did you mean --batchsize?");
}

TEST_F(OptionsTest, BadValuesAreNamed) {
  EXPECT_EQ(error_of({"--batchsize", "0"}), "--batchsize \"0\" must be at least 1");
  EXPECT_EQ(error_of({"--epoch", "-1"}), "--epoch \"-1\" must be at least 0");
  EXPECT_EQ(error_of({"--epoch", "ten"}), "--epoch \"ten\" is not a whole number");
  EXPECT_EQ(error_of({"--epoch", "1.5"}), "--epoch \"1.5\" is not a whole number");
  EXPECT_THAT(error_of({"--epoch="}), HasSubstr("--epoch"));
  EXPECT_EQ(error_of({"--epoch", "99999999999999999999"}), "--epoch \"99999999999999999999\" does not fit in 64 bits");
  EXPECT_EQ(error_of({"--communicator", "nccl"}), "--communicator \"nccl\" is unknown: use auto, naive, flat");
}

TEST_F(OptionsTest, MissingValueIsNamed) {
  EXPECT_EQ(error_of({"--epoch"}), "--epoch needs a value");
  EXPECT_EQ(error_of({"--epoch", "--batchsize", "5"}), "--epoch needs a value");
}

TEST_F(OptionsTest, StrayWordIsAnError) {
  EXPECT_EQ(error_of({"--epoch", "3", "4"}), "unexpected argument \"4\"; options begin with --");
  EXPECT_EQ(error_of({"-e", "3"}), "unexpected argument \"-e\"; options begin with --");
}

TEST_F(OptionsTest, WordsAreKeptApartFromOptions) {
  const char* const given[] = {"mntool", "merge", "--epoch", "2", "--deterministic", "b", "--seed=3", "c", "--help"};
  std::vector<std::string> words;
  EXPECT_EQ(options_.parse(std::size(given), given, &words), Options::Action::kHelp);
  EXPECT_THAT(words, ElementsAre("merge", "b", "c"));
  words.clear();
  const char* const off[] = {"mntool", "--deterministic", "off", "--resume", "here", "x"};
  EXPECT_EQ(options_.parse(std::size(off), off, &words), Options::Action::kRun);
  EXPECT_THAT(words, ElementsAre("x"));
  EXPECT_EQ(resume_, "here");
  EXPECT_FALSE(deterministic_);
}

TEST_F(OptionsTest, CommandLineWinsOverFile) {
  const std::string path = file("# a comment\n[jobs]\nepoch = 7\n; another\n  batchsize=8\nresume =\n");
  (void)parse({"--epoch", "3", "--config", path.c_str()});
  EXPECT_EQ(epoch_, 3);
  EXPECT_EQ(batchsize_, 8);
}

TEST_F(OptionsTest, FileErrorsNameFileAndLine) {
  const std::string path = file("epoch = 7\nbatchsise = 3\n");
  EXPECT_EQ(error_of({"--config", path.c_str()}),
            "unknown option \"batchsise\" in " + path + ":2; did you mean --batchsize?");
  (void)file("epoch = x\n");
  EXPECT_EQ(error_of({"--config", path.c_str()}), path + ":1: epoch \"x\" is not a whole number");
  (void)file("\nepoch\n");
  EXPECT_EQ(error_of({"--config", path.c_str()}), path + ":2: \"epoch\" is not of the form name = value");
  EXPECT_EQ(error_of({"--config", "/no/such.ini"}), "--config: cannot read /no/such.ini");
  EXPECT_EQ(error_of({"--config", "/"}), "--config: cannot read /");
}

TEST_F(OptionsTest, IniHoldsEveryOptionAndReadsBack) {
  (void)parse({"--epoch", "3", "--resume", "a folder/with #signs", "--deterministic"});
  const std::string text = options_.ini();
  EXPECT_THAT(text, AllOf(HasSubstr("epoch = 3\n"), HasSubstr("batchsize = 100\n"), HasSubstr("deterministic = on\n")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("gpu")), Not(HasSubstr("help")), Not(HasSubstr("config"))));
  const std::string path = file(text);
  epoch_ = 0;
  resume_ = "";
  deterministic_ = false;
  (void)parse({"--config", path.c_str()});
  EXPECT_EQ(epoch_, 3);
  EXPECT_EQ(resume_, "a folder/with #signs");
  EXPECT_TRUE(deterministic_);
}

TEST_F(OptionsTest, ListsReadBack) {
  std::vector<std::string> inputs, libraries;
  options_.add_list("input", inputs, "INPUT=FIELD", "fields");
  options_.add_list("library", libraries, "FILE", "libraries");
  (void)parse({"--input", "x=a, b", "--input", "y=c"});
  const std::string path = file(options_.ini());
  inputs.clear();
  (void)parse({"--config", path.c_str()});
  EXPECT_THAT(inputs, ElementsAre("x=a, b", "y=c"));
  EXPECT_THAT(libraries, IsEmpty());
}

TEST_F(OptionsTest, TellsWhatTheCommandLineGives) {
  std::string text;
  options_.add("text", text, "TEXT", "any text");
  (void)parse({"--config", file("batchsize = 100\n").c_str(), "--text", ""});
  EXPECT_TRUE(options_.is_given("text"));
  EXPECT_FALSE(options_.is_given("batchsize") || options_.is_given("epoch"));
}

TEST_F(OptionsTest, HelpAndVersionComeBeforeBadValues) {
  EXPECT_EQ(parse({"--help", "--epoch", "x"}), Options::Action::kHelp);
  EXPECT_EQ(parse({"--version"}), Options::Action::kVersion);
}

TEST_F(OptionsTest, ChecksRunOnceTheVariablesAreSet) {
  options_.add_check([this] {
    if (epoch_ == 7) throw UsageError("not seven");
  });
  EXPECT_EQ(parse({"--epoch", "8"}), Options::Action::kRun);
  EXPECT_THROW((void)parse({"--epoch", "7"}), UsageError);
  EXPECT_EQ(parse({"--help"}), Options::Action::kHelp);
}

TEST_F(OptionsTest, WhatHasNoEffectIsAnErrorOnTheCommandLine) {
  options_.add_conditions({{"batchsize", [this] { return epoch_ > 5; }, "without more than 5 epochs"},
                           {"deterministic", [this] { return resume_.empty(); }, "with --resume"}});
  EXPECT_EQ(error_of({"--batchsize", "3", "--epoch", "5"}), "--batchsize has no effect without more than 5 epochs");
  EXPECT_EQ(parse({"--batchsize", "3", "--epoch", "6"}), Options::Action::kRun);
  EXPECT_EQ(error_of({"--deterministic", "--resume", "x"}), "--deterministic has no effect with --resume");
  EXPECT_EQ(parse({"--deterministic=off", "--resume", "x"}), Options::Action::kRun) << "asks for nothing";
  const std::string path = file("batchsize = 4\nepoch = 2\n");
  EXPECT_EQ(parse({"--config", path.c_str()}), Options::Action::kRun);
  EXPECT_THAT(options_.ini(), HasSubstr("# no effect in this run\n# default: 3\nbatchsize = 4\n"));
  EXPECT_THAT(options_.ini(), testing::Not(HasSubstr("# no effect in this run\n# default: off\ndeterministic")));
}

TEST_F(OptionsTest, OneLineNamesAllOptionsWithoutAnEffect) {
  const auto never = [] { return false; };
  options_.add_conditions({{"batchsize", never, "here"}, {"epoch", never, "here"}, {"deterministic", never, "there"}});
  EXPECT_EQ(error_of({"--batchsize", "3", "--deterministic", "--epoch", "5", "--epoch", "6"}),
            "--batchsize, --epoch have no effect here");
}

TEST_F(OptionsTest, ALineEndInAValueMakesNoLine) {
  EXPECT_EQ(parse({"--resume", "a\nepoch = 7"}), Options::Action::kRun);
  EXPECT_THAT(options_.ini(), HasSubstr("resume = a?epoch = 7\n"));
}

TEST_F(OptionsTest, HelpNamesEveryOptionWithItsDefault) {
  const std::string text = options_.help();
  for (const char* part :
       {"jobs/test [options]", "--batchsize N (=100)", "--communicator NAME (=auto)", "--gpu", "the same as --device",
        "--deterministic", "--config FILE", "--version", "epochs to train"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

}  // namespace
}  // namespace mn

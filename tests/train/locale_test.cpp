// A program whose numbers have a decimal comma and a separator of thousands: files and commands are as without.
#include <filesystem>
#include <fstream>
#include <locale>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <mn/comm/messages/network_costs.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/file.hpp>
#include <mn/trainer/extensions/dump_graph.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/plot_report.hpp>
#include <mn/trainer/extensions/tensorboard.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Matches;
using testing::MatchesRegex;
using toy::TestFolder;
using toy::ToyJob;
using toy::world;

struct Commas : std::numpunct<char> {
  [[nodiscard]] char do_decimal_point() const override { return ','; }
  [[nodiscard]] char do_thousands_sep() const override { return '.'; }
  [[nodiscard]] std::string do_grouping() const override { return "\1"; }
};

class LocaleTest : public ::testing::Test {
 protected:
  LocaleTest() : before_(std::locale::global(std::locale(std::locale(), new Commas))) {}
  ~LocaleTest() override { std::locale::global(before_); }

 private:
  std::locale before_;
};

TEST_F(LocaleTest, NumbersAreWrittenAndReadAsEver) {
  OutText text;
  text << 1234567 << ' ' << 0.25;
  EXPECT_EQ(text.str(), "1234567 0.25");
  double value = 0;
  InText("0.25 1") >> value;
  EXPECT_EQ(value, 0.25);
  const extensions::LogReport log;
  extensions::PlotReport plot(log, {{"loss", {"main/loss"}}}, "iteration");
  plot.add({{"iteration", 1200}, {"main/loss", 0.5}});
  EXPECT_THAT(plot.script("x.png"), HasSubstr("\n1200 0.5\n"));
  setenv("MN_NETWORK", "5.5,1,0.5", 1);
  EXPECT_EQ(NetworkCosts::find(MPI_COMM_WORLD, MPI_COMM_NULL).latency_s, 5.5e-6);
  unsetenv("MN_NETWORK");
}

TEST_F(LocaleTest, ATrainingsFilesAreAsEver) {
  const TestFolder folder(world());
  setenv("MN_STATUS_FILE", (folder.path() / "status").c_str(), 1);
  ToyJob job(world(), {.trainer = {.epochs = 2, .out = folder.path() / "out"}});
  unsetenv("MN_STATUS_FILE");
  const auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>());
  job.trainer->extend(std::make_unique<extensions::DumpGraph>());
  job.trainer->extend(std::make_unique<extensions::TensorBoard>(log, "x"));
  EXPECT_EQ(job.trainer->run(), 0);
  if (world()->rank() != 0) return;
  EXPECT_THAT(read_file(folder.path() / "status"),
              ContainsRegex("iteration [0-9]+ *\nsaved 0 *\nup [0-9]+[.][0-9]{3} *\n"));
  EXPECT_THAT(read_file(folder.path() / "out" / "cg.dot"), testing::Not(ContainsRegex("[0-9][.][0-9]")));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path() / "out")) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(!name.starts_with("events.") || Matches(MatchesRegex("events.out.tfevents.[0-9]+[.].*[.][0-9]+"))(name))
        << name;
  }
}

}  // namespace
}  // namespace mn

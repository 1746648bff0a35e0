// What rank 0 shows on a terminal: the plan, the progress bar, and how long training takes.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <mn/core/fd.hpp>
#include <mn/trainer/extensions/forecast.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/progress_bar.hpp>
#include <mn/trainer/extensions/run_facts.hpp>

#include "tests/support/temporary_folder.hpp"
#include "tests/support/variable.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ProgressBarTest, ShowsHowFarAndHowLong) {
  const std::string text = extensions::ProgressBar::render({.total = 0.25,
                                                            .epoch_detail = 2.5,
                                                            .iteration = 120,
                                                            .epochs = 10,
                                                            .speed = 88.123,
                                                            .units_per_second = 5640,
                                                            .unit = "images",
                                                            .loss = 0.125,
                                                            .seconds_left = 3725});
  EXPECT_THAT(text, HasSubstr("total [############......................................]  25.00%"));
  EXPECT_THAT(text, HasSubstr("this epoch [#########################.........................]  50.00%"));
  EXPECT_THAT(text, HasSubstr("120 iter, 2 epoch / 10 epochs, loss 0.125"));
  EXPECT_THAT(text, HasSubstr("88.123 iters/sec, 5640 images/sec. Estimated time to finish: 1 h 2 min."));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

TEST(ProgressBarTest, FitsTheTerminal) {
  const extensions::ProgressBar::View view = {.total = 0.25,
                                              .epoch_detail = 102.5,
                                              .iteration = 1234567890,
                                              .epochs = 300,
                                              .speed = 1188.123,
                                              .units_per_second = 5640123,
                                              .unit = "images",
                                              .loss = 0.125,
                                              .seconds_left = 3725};
  for (const int width : {1, 18, 25, 40, 41, 60, 80, 250}) {
    std::istringstream lines(extensions::ProgressBar::render(view, width));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      EXPECT_TRUE(line.ends_with("\033[K")) << line;
      EXPECT_LE(line.size() - 3, static_cast<std::size_t>(std::max(width - 1, 1))) << line;
    }
    EXPECT_EQ(count, 4) << width;
  }
  const std::string narrow = extensions::ProgressBar::render(view, 40);
  for (const char* part : {"total [####..............]  25.00%", "102 epoch / 300 epochs", "ETA 1 h 2 min"}) {
    EXPECT_THAT(narrow, HasSubstr(part));
  }
}

TEST(ForecastTest, SaysHowLongAnEpochTakesAndWhereTheTimeLimitFalls) {
  const extensions::Forecast::Plan plan = {.step_s = 0.1, .steps_per_epoch = 600, .steps_left = 60'000, .epoch = 0.5};
  EXPECT_EQ(extensions::Forecast::line(plan),
            "without validation and checkpoints an epoch takes about 1 min, the training 1 h 40 min from now");
  extensions::Forecast::Plan limited = plan;
  limited.left_s = 40 * 60;
  EXPECT_THAT(extensions::Forecast::line(limited), HasSubstr("; the time limit ends in epoch 41 at the latest"));
  limited.has_pauses = true;
  EXPECT_EQ(
      extensions::Forecast::line(limited),
      "with validation and checkpoints an epoch takes about 1 min, the training 1 h 40 min from now; the time limit "
      "ends in epoch 41");
  limited.left_s = 1e9;
  EXPECT_THAT(extensions::Forecast::line(limited), Not(HasSubstr("time limit")));
}

TEST(ForecastTest, WithATimeLimitASecondLineFollowsTheFirstReport) {
  const TestFolder folder(world());
  const Variable end("MN_END_TIME", std::to_string(std::time(nullptr) + 1000));
  ToyJob job(world(), {.trainer = {.epochs = 1'000'000'000, .out = folder.path(), .checkpoint_on_signal = true}});
  const auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>(),
                                        {.trigger = Interval(25, IntervalUnit::kIteration)});
  job.trainer->extend(std::make_unique<extensions::Forecast>(log));
  job.trainer->extend("stop", {30, "iteration"}, [](Trainer& trainer) { trainer.stop("it was enough"); });
  testing::internal::CaptureStderr();
  EXPECT_EQ(job.trainer->run(), 0);
  const std::string lines = testing::internal::GetCapturedStderr();
  if (world()->rank() > 0) return;
  const auto first = lines.find(" without validation"), second = lines.find(" with validation");
  EXPECT_LT(lines.find(" at the latest", first), second) << lines;
  EXPECT_NE(lines.find("; the time limit ends in epoch ", second), std::string::npos) << lines;
}

TEST(PlanTest, NamesSizesThatAreKnown) {
  extensions::RunFacts facts = {.ranks = 2,
                                .nodes = 1,
                                .device = "Some CPU",
                                .parameters = 89610,
                                .trained = 89610,
                                .samples = 60000,
                                .steps_per_epoch = 300,
                                .global_batch = 200,
                                .epochs = 20};
  EXPECT_EQ(extensions::plan_of(facts, "images"),
            "2 ranks on 1 node (Some CPU): 60000 images, 300 steps an epoch, global batch 200, 20 epochs, 89610 "
            "parameters");
  facts.samples = facts.global_batch = 0;
  facts.trained = 10;
  EXPECT_EQ(extensions::plan_of(facts, "tokens"),
            "2 ranks on 1 node (Some CPU): 300 steps an epoch, 20 epochs, 89610 parameters (10 trained)");
}

TEST(PlanTest, ReadsTheModelOfTheDevice) {
  const toy::TestFolder folder(toy::world());
  if (toy::world()->rank() > 0) return;
  const auto proc = folder.path() / "proc";
  EXPECT_EQ(extensions::device_model(false, folder.path().string()), "CPU");
  EXPECT_EQ(extensions::device_model(true, folder.path().string()), "GPU");
  std::filesystem::create_directories(proc / "driver/nvidia/gpus/0000:01:00.0");
  std::ofstream(proc / "cpuinfo") << "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n";
  std::ofstream(proc / "driver/nvidia/gpus/0000:01:00.0/information") << "Model: \t\t NVIDIA H100\nIRQ: 1\n";
  EXPECT_EQ(extensions::device_model(false, folder.path().string()), "Some CPU @ 2 GHz");
  EXPECT_EQ(extensions::device_model(true, folder.path().string()), "NVIDIA H100");
}

/// What `work` writes to standard output, which is a terminal meanwhile.
template <class Work>
std::string on_a_terminal(const Work& work) {
  const Fd terminal(posix_openpt(O_RDWR | O_NOCTTY));
  EXPECT_EQ(grantpt(terminal.get()) + unlockpt(terminal.get()), 0);
  {
    const Fd other_end(open(ptsname(terminal.get()), O_RDWR | O_NOCTTY));
    const winsize size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(ioctl(other_end.get(), TIOCSWINSZ, &size), 0);
    std::fflush(stdout);
    const Fd before(dup(STDOUT_FILENO));
    dup2(other_end.get(), STDOUT_FILENO);
    work();
    std::fflush(stdout);
    dup2(before.get(), STDOUT_FILENO);
  }
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t length;
       (length = read(terminal.get(), piece.data(), piece.size())) > 0;) {  // until EIO: all have closed it
    text.append(piece.data(), static_cast<std::size_t>(length));
  }
  return text;
}

TEST(ProgressBarTest, IsDrawnOverItselfAndWipedAtTheEnd) {
  const toy::TestFolder folder(toy::world());
  toy::ToyJob job(toy::world(), {.trainer = {.iterations = 3, .out = folder.path()}});
  const Interval each(1, "iteration");
  job.trainer->extend("slow", each, [](Trainer&) { std::this_thread::sleep_for(std::chrono::milliseconds(250)); });
  job.trainer->extend(std::make_unique<extensions::ProgressBar>(), {.trigger = each});
  const std::string text = on_a_terminal([&] { EXPECT_EQ(job.trainer->run(), 0); });
  if (toy::world()->rank() > 0) {
    EXPECT_EQ(text, "");
    return;
  }
  EXPECT_THAT(text, HasSubstr(" iter, "));
  EXPECT_THAT(text, HasSubstr(", loss "));
  EXPECT_THAT(text, HasSubstr("\033[4A")) << "the next lines take the place of these";
  EXPECT_TRUE(text.ends_with("\033[J")) << text;
}

}  // namespace
}  // namespace mn

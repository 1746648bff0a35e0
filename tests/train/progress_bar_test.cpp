// The progress bar: its lines, and what rank 0 writes to a terminal.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <mn/core/fd.hpp>
#include <mn/trainer/extensions/progress_bar.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::HasSubstr;

TEST(ProgressBarTest, ShowsHowFarAndHowLong) {
  const std::string text = extensions::ProgressBar::render(0.25, 2.5, 120, 10, 88.123, 3725);
  EXPECT_THAT(text, HasSubstr("total [############......................................]  25.00%"));
  EXPECT_THAT(text, HasSubstr("this epoch [#########################.........................]  50.00%"));
  EXPECT_THAT(text, HasSubstr("120 iter, 2 epoch / 10 epochs"));
  EXPECT_THAT(text, HasSubstr("88.123 iters/sec. Estimated time to finish: 1:02:05."));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
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
  EXPECT_THAT(text, HasSubstr("\033[4A")) << "the next lines take the place of these";
  EXPECT_TRUE(text.ends_with("\033[J")) << text;
}

}  // namespace
}  // namespace mn

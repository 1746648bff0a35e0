#include <mn/trainer/extensions/progress_bar.hpp>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include <sys/ioctl.h>
#include <unistd.h>

#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

constexpr double kRedrawPeriod_s = 0.2;
constexpr int kWidth = 50;  // characters of a bar

std::string bar(const char* label, double fraction) {
  const int marks = static_cast<int>(std::floor(fraction * kWidth));
  char line[160];
  std::snprintf(line, sizeof line, "%10s [%s%s] %6.2f%%\033[K\n", label, std::string(marks, '#').c_str(),
                std::string(kWidth - marks, '.').c_str(), fraction * 100);
  return line;
}

std::string hours_minutes_seconds(double seconds) {
  const auto whole = static_cast<long long>(seconds);
  char text[48];
  std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  return text;
}

}  // namespace

bool stdout_is_terminal() {
  if (isatty(STDOUT_FILENO) == 0) return false;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return true;
  // Open MPI gives its ranks pseudo-terminals without a size, even if the output of mpiexec goes to a file. A terminal
  // without a size therefore does not count by itself.
  std::error_code none;
  const auto parents = std::filesystem::read_symlink("/proc/" + std::to_string(getppid()) + "/fd/1", none).string();
  return parents.starts_with("/dev/pts/") || parents.starts_with("/dev/tty");
}

std::string ProgressBar::render(double total, double epoch_detail, std::int64_t iteration, std::int64_t epochs,
                                double speed, double seconds_left) {
  std::string text = bar("total", total) + bar("this epoch", epoch_detail - std::floor(epoch_detail));
  char line[160];
  std::snprintf(line, sizeof line, "%10lld iter, %lld epoch", static_cast<long long>(iteration),
                static_cast<long long>(std::floor(epoch_detail)));
  text += line;
  if (epochs > 0) text += " / " + std::to_string(epochs) + " epochs";
  text += "\033[K\n";
  if (speed > 0) {
    std::snprintf(line, sizeof line, "%10.5g iters/sec. Estimated time to finish: %s.", speed,
                  hours_minutes_seconds(seconds_left).c_str());
    text += line;
  }
  return text + "\033[K\n";
}

void ProgressBar::initialize(Trainer& trainer) {
  shown_ = trainer.is_root() && stdout_is_terminal();
  begin_ = last_ = Clock::now();
  first_iteration_ = trainer.iteration();
  first_progress_ = trainer.progress();
}

void ProgressBar::run(Trainer& trainer) {
  if (!shown_) return;
  const auto now = Clock::now();
  if (std::chrono::duration<double>(now - last_).count() < kRedrawPeriod_s) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double speed = static_cast<double>(trainer.iteration() - first_iteration_) / seconds;
  const double done = trainer.progress() - first_progress_;
  const double left = done > 0 ? seconds / done * (1 - trainer.progress()) : 0;
  std::fputs(
      render(trainer.progress(), trainer.epoch_detail(), trainer.iteration(), trainer.options().epochs, speed, left)
          .c_str(),
      stdout);
  std::fputs("\033[4A", stdout);  // the next line overwrites the bars
  std::fflush(stdout);
}

void ProgressBar::finalize(Trainer&) {
  if (!shown_) return;
  std::fputs("\033[J", stdout);
  std::fflush(stdout);
}

}  // namespace mn::extensions

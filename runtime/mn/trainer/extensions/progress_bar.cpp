#include <mn/trainer/extensions/progress_bar.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <mn/core/fd.hpp>
#include <mn/core/text.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

constexpr double kRedrawPeriod_s = 0.2;
constexpr int kMaxMarks = 50;    // number of characters of a bar
constexpr int kUsualWidth = 80;  // columns of a terminal that does not tell its size

/// Returns 0 if `file` is no terminal, or if the terminal does not tell its size.
int columns_of(int file) {
  winsize size = {};
  return ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// Makes a line of at most `width` − 1 columns, because some terminals begin a new line after the last column.
std::string line_of(const std::string& text, int width) {
  return text.substr(0, static_cast<std::size_t>(std::max(width - 1, 1))) + "\033[K\n";
}

bool fits(const std::string& text, int width) { return std::ssize(text) < width; }

std::string bar(const char* label, double fraction, int width) {
  constexpr int kRest = 22;  // columns for label, brackets, percentage and the last column
  const int marks = std::clamp(width - kRest, 0, kMaxMarks);
  const int done = static_cast<int>(std::floor(fraction * marks));
  char line[160];
  std::snprintf(line, sizeof line, "%10s [%s%s] %6.2f%%", label, std::string(done, '#').c_str(),
                std::string(marks - done, '.').c_str(), fraction * 100);
  return line_of(line, width);
}

/// On a narrow terminal, first the loss is left out, then the iteration.
std::string progress_line(const ProgressBar::View& view, int width) {
  std::string epochs = std::to_string(static_cast<std::int64_t>(std::floor(view.epoch_detail))) + " epoch";
  if (view.epochs > 0) epochs += " / " + std::to_string(view.epochs) + " epochs";
  char text[64];
  std::snprintf(text, sizeof text, "%10lld iter, ", static_cast<long long>(view.iteration));
  const std::string line = text + epochs;
  if (!fits(line, width)) return line_of(epochs, width);
  if (!view.loss) return line_of(line, width);
  std::snprintf(text, sizeof text, ", loss %.5g", *view.loss);
  return line_of(fits(line + text, width) ? line + text : line, width);
}

/// On a narrow terminal, the line begins with the time, and has as much of the rest as fits.
std::string speed_line(const ProgressBar::View& view, int width) {
  if (view.speed <= 0) return line_of("", width);
  char text[160];
  std::snprintf(text, sizeof text, "%.5g iters/sec", view.speed);
  const std::string steps = text;
  std::string units;
  if (view.units_per_second > 0) {
    std::snprintf(text, sizeof text, ", %.0f %s/sec", view.units_per_second, view.unit.c_str());
    units = text;
  }
  std::snprintf(text, sizeof text, "%10.5g iters/sec", view.speed);
  const std::string time = duration_text(view.seconds_left);
  const std::string whole = text + units + ". Estimated time to finish: " + time + ".";
  if (fits(whole, width)) return line_of(whole, width);
  std::string line = "ETA " + time;
  for (const std::string& part : {", " + steps, units}) {
    if (!fits(line + part, width)) break;
    line += part;
  }
  return line_of(line, width);
}

}  // namespace

int stdout_columns() {
  if (isatty(STDOUT_FILENO) == 0) return 0;
  if (const int columns = columns_of(STDOUT_FILENO); columns > 0) return columns;
  // With Open MPI, ranks have pseudo-terminals that tell no size, even if the output of mpiexec goes to a file.
  // Therefore, a terminal without a size counts only if the parent process has a terminal.
  std::error_code none;
  const std::string output = "/proc/" + std::to_string(getppid()) + "/fd/1";
  const auto parents = std::filesystem::read_symlink(output, none).string();
  if (!parents.starts_with("/dev/pts/") && !parents.starts_with("/dev/tty")) return 0;
  const Fd terminal(open(output.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  const int columns = columns_of(terminal.get());
  return columns > 0 ? columns : kUsualWidth;
}

ProgressBar::ProgressBar(RunDetails details) : details_(std::move(details)) {}

std::string ProgressBar::render(const View& view, int width) {
  return bar("total", view.total, width) + bar("this epoch", view.epoch_detail - std::floor(view.epoch_detail), width) +
         progress_line(view, width) + speed_line(view, width);
}

void ProgressBar::initialize(Trainer& trainer) {
  shown_ = trainer.is_root() && stdout_columns() > 0;
  begin_ = last_ = Clock::now();
  first_iteration_ = trainer.iteration();
  first_progress_ = trainer.progress();
  if (shown_) units_per_step_ = static_cast<double>(facts_of(trainer).global_batch) * details_.units_per_sample;
}

void ProgressBar::observe(const at::Tensor& loss, const Summary& /*metrics*/) {
  if (shown_) loss_ = loss.detach();
}

/// On a GPU, returns the loss of the previous call, to avoid a wait.
std::optional<double> ProgressBar::next_loss() {
  std::optional<double> loss;
  if (copied_.defined()) loss = copied_.item<double>();
  if (!loss_.defined()) return loss;
  copied_ = at::empty({}, at::TensorOptions().dtype(at::kFloat).pinned_memory(loss_.is_cuda()));
  copied_.copy_(loss_.reshape({}), /*non_blocking=*/true);
  return loss_.is_cpu() ? copied_.item<double>() : loss;
}

void ProgressBar::run(Trainer& trainer) {
  if (!shown_) return;
  const auto now = Clock::now();
  if (std::chrono::duration<double>(now - last_).count() < kRedrawPeriod_s) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double speed = static_cast<double>(trainer.iteration() - first_iteration_) / seconds;
  const double done = trainer.progress() - first_progress_;
  const std::string text = render({.total = trainer.progress(),
                                   .epoch_detail = trainer.epoch_detail(),
                                   .iteration = trainer.iteration(),
                                   .epochs = trainer.options().epochs,
                                   .speed = speed,
                                   .units_per_second = speed * units_per_step_,
                                   .unit = details_.unit,
                                   .loss = next_loss(),
                                   .seconds_left = done > 0 ? seconds / done * (1 - trainer.progress()) : 0},
                                  stdout_columns());
  std::fputs(text.c_str(), stdout);
  std::fputs("\033[4A", stdout);  // the next line overwrites the bars
  std::fflush(stdout);
}

void ProgressBar::finalize(Trainer&) {
  if (!shown_) return;
  std::fputs("\033[J", stdout);
  std::fflush(stdout);
}

}  // namespace mn::extensions

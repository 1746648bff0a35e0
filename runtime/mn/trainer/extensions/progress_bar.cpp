#include <mn/trainer/extensions/progress_bar.hpp>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <ATen/ops/empty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <mn/core/text.hpp>
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

}  // namespace

bool stdout_is_terminal() {
  if (isatty(STDOUT_FILENO) == 0) return false;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return true;
  // Open MPI gives its ranks terminals without a size, even if the output of mpiexec goes to a file. If the terminal
  // has no size, the output of the parent process therefore decides.
  std::error_code none;
  const auto parents = std::filesystem::read_symlink("/proc/" + std::to_string(getppid()) + "/fd/1", none).string();
  return parents.starts_with("/dev/pts/") || parents.starts_with("/dev/tty");
}

ProgressBar::ProgressBar(RunDetails details) : details_(std::move(details)) {}

std::string ProgressBar::render(const View& view) {
  std::string text = bar("total", view.total) + bar("this epoch", view.epoch_detail - std::floor(view.epoch_detail));
  char line[160];
  std::snprintf(line, sizeof line, "%10lld iter, %lld epoch", static_cast<long long>(view.iteration),
                static_cast<long long>(std::floor(view.epoch_detail)));
  text += line;
  if (view.epochs > 0) text += " / " + std::to_string(view.epochs) + " epochs";
  if (view.loss) {
    std::snprintf(line, sizeof line, ", loss %.5g", *view.loss);
    text += line;
  }
  text += "\033[K\n";
  if (view.speed > 0) {
    std::snprintf(line, sizeof line, "%10.5g iters/sec", view.speed);
    text += line;
    if (view.units_per_second > 0) {
      std::snprintf(line, sizeof line, ", %.0f %s/sec", view.units_per_second, view.unit.c_str());
      text += line;
    }
    text += ". Estimated time to finish: " + duration_text(view.seconds_left) + ".";
  }
  return text + "\033[K\n";
}

void ProgressBar::initialize(Trainer& trainer) {
  shown_ = trainer.is_root() && stdout_is_terminal();
  begin_ = last_ = Clock::now();
  first_iteration_ = trainer.iteration();
  first_progress_ = trainer.progress();
  if (shown_) units_per_step_ = static_cast<double>(facts_of(trainer).global_batch) * details_.units_per_sample;
}

void ProgressBar::observe(const at::Tensor& loss, const Summary& /*metrics*/) {
  if (shown_) loss_ = loss.detach();
}

/// Returns the latest loss if it is on the CPU. If it is on a GPU, returns the loss that the previous call began to
/// copy, and begins to copy the latest one, without waiting for the GPU.
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
                                   .seconds_left = done > 0 ? seconds / done * (1 - trainer.progress()) : 0});
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

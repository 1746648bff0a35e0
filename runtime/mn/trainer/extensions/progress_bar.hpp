/// Shows the progress of training on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/run_facts.hpp>

namespace mn::extensions {

/// Returns the number of columns of the terminal to which this process writes its standard output, directly or through
/// mpiexec. Returns 0 if the standard output goes to no terminal.
[[nodiscard]] int stdout_columns();

/// If rank 0's standard output is a terminal, rank 0 draws bars for the whole training and the current epoch and,
/// below, its latest loss, the speed in steps and samples, and the estimated time to finish, a few times a second. On a
/// GPU, the loss is that of the previous redraw, so that no step waits for a loss.
class ProgressBar final : public Extension {
 public:
  /// `details` says what the speed counts, for instance images.
  explicit ProgressBar(RunDetails details = {});

  [[nodiscard]] std::string name() const override { return "ProgressBar"; }
  void initialize(Trainer& trainer) override;
  void observe(const at::Tensor& loss, const Summary& metrics) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

  /// The values that the four lines show.
  struct View {
    double total = 0;                 ///< fraction of the training that is done
    double epoch_detail = 0;          ///< completed epochs, plus the fraction of the current epoch
    std::int64_t iteration = 0;       ///< iterations that are done
    std::int64_t epochs = 0;          ///< epochs of the whole training; 0: no limit
    double speed = 0;                 ///< iterations per second; 0: not known yet
    double units_per_second = 0;      ///< units of all ranks per second; 0: not known
    std::string unit = "samples";     ///< what units_per_second counts
    std::optional<double> loss = {};  ///< loss of the latest minibatch
    double seconds_left = 0;          ///< estimated time to the end of training
  };
  /// Returns the four lines that show `view` on a terminal of `width` columns. No line reaches the last column. On a
  /// narrow terminal, loss and speed are left out; percentages, epoch and remaining time stay.
  [[nodiscard]] static std::string render(const View& view, int width = 80);

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] std::optional<double> next_loss();

  RunDetails details_;
  double units_per_step_ = 0;
  bool shown_ = false;
  Clock::time_point begin_ = {};
  Clock::time_point last_ = {};
  std::int64_t first_iteration_ = 0;
  double first_progress_ = 0;
  at::Tensor loss_;    // loss of the latest minibatch, on its device
  at::Tensor copied_;  // the loss at the previous redraw, on the CPU
};

}  // namespace mn::extensions

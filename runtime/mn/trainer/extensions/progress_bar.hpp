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

/// Returns the columns of the terminal that this process's standard output reaches, directly or through mpiexec; 0 if
/// standard output reaches no terminal.
[[nodiscard]] int stdout_columns();

/// If rank 0's standard output is a terminal, rank 0 draws bars for the whole training and the current epoch, rank 0's
/// loss of the latest minibatch, the speed in steps and samples, and the estimated time to finish, a few times a
/// second. On a GPU, a redraw shows the loss that was the latest at the previous redraw, so that no step waits for a
/// loss.
class ProgressBar final : public Extension {
 public:
  /// `details` say what the speed counts, such as images.
  explicit ProgressBar(RunDetails details = {});

  [[nodiscard]] std::string name() const override { return "ProgressBar"; }
  void initialize(Trainer& trainer) override;
  void observe(const at::Tensor& loss, const Summary& metrics) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

  /// The numbers that the bars show.
  struct View {
    double total = 0;                 ///< fraction of the training that is done
    double epoch_detail = 0;          ///< epochs that are done, with the fraction of the present epoch
    std::int64_t iteration = 0;       ///< iterations that are done
    std::int64_t epochs = 0;          ///< limit; 0: none
    double speed = 0;                 ///< iterations per second; 0: not known yet
    double units_per_second = 0;      ///< over all ranks; 0: not known
    std::string unit = "samples";     ///< what units_per_second counts
    std::optional<double> loss = {};  ///< of the latest minibatch
    double seconds_left = 0;          ///< estimated time to the end of training
  };
  /// Returns the four lines for a state of training, on a terminal of `width` columns. No line reaches the last column.
  /// A narrow terminal keeps percentages, epoch and remaining time, and loses loss and speed.
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
  at::Tensor loss_;    // of the latest minibatch, on its device
  at::Tensor copied_;  // the loss at the previous redraw, on the CPU
};

}  // namespace mn::extensions

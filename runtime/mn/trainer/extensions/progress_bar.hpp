/// The progress of training on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// True if this process's standard output reaches a terminal, directly or through mpiexec.
[[nodiscard]] bool stdout_is_terminal();

/// If rank 0's standard output is a terminal, rank 0 draws bars for the whole training and the current epoch, the speed
/// and the estimated time to finish, a few times a second.
class ProgressBar final : public Extension {
 public:
  [[nodiscard]] std::string name() const override { return "ProgressBar"; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

  /// Returns the four lines for a state of training. `total` is the fraction of the training that is done. `epochs` is
  /// the limit (0: none). `speed` is in iterations per second (0: not known yet).
  [[nodiscard]] static std::string render(double total, double epoch_detail, std::int64_t iteration,
                                          std::int64_t epochs, double speed, double seconds_left);

 private:
  using Clock = std::chrono::steady_clock;
  bool shown_ = false;
  Clock::time_point begin_ = {};
  Clock::time_point last_ = {};
  std::int64_t first_iteration_ = 0;
  double first_progress_ = 0;
};

}  // namespace mn::extensions

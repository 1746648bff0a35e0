/// Proposes a learning rate after one short run in which the rate rises.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/learning_rate.hpp>
#include <mn/trainer/extensions/log_report.hpp>

namespace mn::extensions {

/// The rates of a RateFinder, and when the search ends. By default the range and the end are fastai's.
struct RateFinderOptions {
  static constexpr std::int64_t kLeastSteps = 20;  ///< fewer steps are an error

  double first = 1e-7;       ///< rate of the first iteration; > 0
  double last = 10;          ///< rate of the last iteration; > first
  std::int64_t steps = 100;  ///< iterations; at least kLeastSteps
  double smoothing = 0.9;    ///< decay of the mean of the losses; in [0, 1). Lightning's 0.98 lags by about 50 steps
  double diverged = 4;       ///< the search ends when the smoothed loss exceeds this multiple of its least value; > 1
};

/// The learning-rate range test (Smith 2017, arXiv:1506.01186), as in Lightning and fastai: the rate rises by the same
/// factor in each iteration until the loss has diverged or `steps` are over, which ends the run. The proposal is the
/// rate at which the smoothed loss, over the logarithm of the rate, falls fastest before it is least.
///
///   mn::Trainer trainer(comm, optimizer, iterator, model, loss, {.iterations = 100, .out = "result/find-lr"});
///   const auto& log = trainer.extend(std::make_unique<LogReport>(), {.trigger = mn::Interval(1, "iteration")});
///   const auto& finder = trainer.extend(std::make_unique<RateFinder>(log));
///   static_cast<void>(trainer.run());
///   const double rate = finder.proposal().value_or(0.001);
///
/// (1) Losses are means over all ranks; therefore every rank gets the same proposal.
/// (2) The groups of the first optimizer keep the proportions of their rates; the proposal is the first group's rate.
/// (3) When the run has ended, parameters, buffers, optimizers, random numbers and the order of samples are as before
///     the run; therefore the program can train with the same parts. This costs the memory of a copy of the model.
/// Rank 0 writes OUT/rate_search.json, which report.html shows as a curve, and logs the proposal.
class RateFinder final : public Extension {
 public:
  /// `log` belongs to the same trainer, runs in each iteration, and must outlive this extension. Throws UsageError if
  /// an option is out of its range.
  explicit RateFinder(const LogReport& log, const RateFinderOptions& options = {});
  ~RateFinder() override;

  /// Call it after the run: returns the proposed rate, which is the same on all ranks. Returns no value if the loss has
  /// never fallen.
  [[nodiscard]] std::optional<double> proposal() const;
  /// The learning rate of each iteration so far.
  [[nodiscard]] const std::vector<double>& rates() const noexcept { return rates_; }
  /// The smoothed loss of each iteration so far.
  [[nodiscard]] const std::vector<double>& smoothed() const noexcept { return smoothed_; }

  [[nodiscard]] std::string name() const override { return "RateFinder"; }
  [[nodiscard]] int priority() const override { return kPriorityReport + 1; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

 private:
  struct Before;

  void add(double rate, double loss);
  [[nodiscard]] std::string reason_to_end() const;

  const LogReport& log_;
  RateFinderOptions options_;
  LearningRate rising_;
  double mean_ = 0;   // decaying mean of the losses, which begins at 0
  double least_ = 0;  // least value in smoothed_
  std::vector<double> rates_, losses_, smoothed_;
  std::unique_ptr<Before> before_;  // from initialize() to finalize()
};

}  // namespace mn::extensions

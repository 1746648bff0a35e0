/// Proposes a learning rate after one short run, in which the learning rate rises step by step.
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

/// The learning rates that a RateFinder tries, and when its search ends. The default range and end are those of fastai.
struct RateFinderOptions {
  static constexpr std::int64_t kLeastSteps = 20;  ///< fewer steps than this are an error

  double first = 1e-7;       ///< rate of the first iteration; > 0
  double last = 10;          ///< rate of the last iteration; > first
  std::int64_t steps = 100;  ///< number of iterations; at least kLeastSteps
  double smoothing = 0.9;    ///< decay of the mean of the losses; in [0, 1). Lightning's 0.98 lags by about 50 steps
  double diverged = 4;       ///< the search ends when the smoothed loss exceeds this multiple of its least value; > 1
};

/// The learning-rate range test (Smith 2017, arXiv:1506.01186), as in Lightning and fastai: each iteration multiplies
/// the learning rate by the same factor, until the loss has diverged or `steps` iterations are over. The proposal is
/// the rate at which the smoothed loss falls fastest over the logarithm of the rate, before its least value.
///
///   mn::Trainer trainer(comm, optimizer, iterator, model, loss, {.iterations = 100, .out = "result/find-lr"});
///   const auto& log = trainer.extend(std::make_unique<LogReport>(), {.trigger = mn::Interval(1, "iteration")});
///   const auto& finder = trainer.extend(std::make_unique<RateFinder>(log));
///   static_cast<void>(trainer.run());
///   const double rate = finder.proposal().value_or(0.001);
///
/// (1) Losses are means over all ranks, so every rank gets the same proposal.
/// (2) The groups of the first optimizer keep the proportions of their rates; the proposal is the first group's rate.
/// (3) After the run, parameters, buffers, optimizers, random numbers and the order of samples are as before, so the
///     program can train with the same objects. The search needs memory for a copy of the model.
/// Rank 0 writes OUT/rate_search.json, which report.html shows as a curve, and logs the proposal.
class RateFinder final : public Extension {
 public:
  /// `log` belongs to the same trainer, must run in each iteration, and must outlive this extension. Throws UsageError
  /// if an option is out of its range.
  explicit RateFinder(const LogReport& log, const RateFinderOptions& options = {});
  ~RateFinder() override;

  /// Call it after the run. Returns an equal rate on all ranks, or no value if the loss has never fallen.
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
  double mean_ = 0;   // decaying mean of the losses; begins at 0
  double least_ = 0;  // least value in smoothed_
  std::vector<double> rates_, losses_, smoothed_;
  std::unique_ptr<Before> before_;  // from initialize() to finalize()
};

}  // namespace mn::extensions

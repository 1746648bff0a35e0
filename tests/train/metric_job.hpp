/// A job that reports made-up values, for extensions that act on a metric.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mn/trainer/extensions/log_report.hpp>

#include "tests/train/toy.hpp"

namespace mn::toy {

/// A job that reports made-up values, one an iteration, as "metric".
struct MetricJob : ToyJob {
  /// Nothing is reported where a value is `none`.
  MetricJob(const TestFolder& folder, std::vector<double> values, double none = -1e9)
      : ToyJob(world(), {.trainer = {.iterations = static_cast<std::int64_t>(values.size()), .out = folder.path()}}),
        log([this, values, none] {
          trainer->extend(std::make_unique<Reporter>(values, none));
          return &trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = kEach});
        }()) {}

  class Reporter final : public Extension {
   public:
    Reporter(std::vector<double> values, double none) : values_(std::move(values)), none_(none) {}
    std::string name() const override { return "reporter"; }
    int priority() const override { return kPriorityWriter; }
    void run(Trainer& trainer) override {
      const double value = values_.at(static_cast<std::size_t>(trainer.iteration() - 1));
      if (value != none_) trainer.report("metric", value);
    }

   private:
    std::vector<double> values_;
    double none_;
  };

  /// With the log's trigger, as the jobs add it.
  template <class E, class... Args>
  E& add(Args&&... args) {
    return trainer->extend(std::make_unique<E>(std::forward<Args>(args)...), {.trigger = kEach});
  }
  double rate() const { return trainer->optimizer().param_groups().front().options().get_lr(); }

  static inline const Interval kEach{1, "iteration"};
  const extensions::LogReport* log;
};

}  // namespace mn::toy

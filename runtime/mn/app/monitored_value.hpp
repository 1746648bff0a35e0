/// Ends a job with a misspelled --monitor at its start.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <mn/app/setup.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extension.hpp>

namespace mn::app {

/// Collective. Throws the same UsageError on every rank if `evaluator`, which evaluates one minibatch of this rank,
/// does not report the value of --monitor. Restores `iterator`, the evaluator's, and the random numbers.
void check_validated_value(const CommonOptions& common, Evaluator& evaluator, Iterator& iterator, Communicator& comm);

/// Throws the same UsageError on every rank after the first iteration if the loss function does not report the value of
/// --monitor.
class MonitoredValue final : public Extension {
 public:
  /// `monitor` is --monitor; `validates`: the loss function also validates, so that each reported "main/NAME" has a
  /// "validation/main/NAME".
  MonitoredValue(std::string monitor, bool validates) : monitor_(std::move(monitor)), validates_(validates) {}

  [[nodiscard]] std::string name() const override { return "MonitoredValue"; }
  [[nodiscard]] int priority() const override { return kPriorityWriter + 2; }  // before the log takes the values
  void run(Trainer& trainer) override;

 private:
  std::string monitor_;
  bool validates_;
  bool done_ = false;
};

}  // namespace mn::app

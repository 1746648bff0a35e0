/// A misspelled --monitor ends a job at its start.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <mn/app/setup.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extension.hpp>

namespace mn::app {

/// Collective. Throws the same UsageError on every rank if --monitor names a value that `evaluator`, one of this rank's
/// minibatches alone, does not report. Its iterator and the random numbers are as before.
void check_validated_value(const CommonOptions& common, Evaluator& evaluator, Iterator& iterator, Communicator& comm);

/// Throws it after the first iteration if the loss function, which may also be what validates, reports no such value.
class MonitoredValue final : public Extension {
 public:
  /// `monitor` is --monitor; `validates`: what is reported as "main/NAME" is validated as "validation/main/NAME".
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

/// Checks that --monitor names a value which the training reports. Every rank throws an equal UsageError for a
/// misspelled or malformed name; any other name may be reported later.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <mn/app/common_options.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extension.hpp>

namespace mn::app {

/// Collective: checks --monitor by evaluating one minibatch of this rank. `evaluator` reports its values under `name`.
/// Afterwards restores the state of the random numbers and of `iterator`, from which the evaluator reads.
void check_validated_value(const CommonOptions& common, const std::string& name, Evaluator& evaluator,
                           Iterator& iterator, Communicator& comm);

/// Checks --monitor after the first iteration.
class MonitoredValue final : public Extension {
 public:
  /// `monitor` is the value of --monitor. `validations` has the names of the validations that use the loss function: if
  /// the loss function reports "main/VALUE", a validation called NAME reports "NAME/main/VALUE".
  MonitoredValue(std::string monitor, std::vector<std::string> validations)
      : monitor_(std::move(monitor)), validations_(std::move(validations)) {}

  [[nodiscard]] std::string name() const override { return "MonitoredValue"; }
  [[nodiscard]] int priority() const override { return kPriorityWriter + 2; }  // before the log takes the values
  void run(Trainer& trainer) override;

 private:
  std::string monitor_;
  std::vector<std::string> validations_;
  bool done_ = false;
};

}  // namespace mn::app

/// Ends training when a monitored value no longer improves.
#pragma once

#include <cstdint>
#include <string>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/monitor.hpp>

namespace mn::extensions {

/// Stops training after `patience` reports in a row without a value better than the best value so far (ChainerMN's
/// MultiNodeEarlyStoppingTrigger). All ranks stop in the same iteration. Looks for a new report in every iteration.
/// Reports without the monitored value do not count. The report at the end of training does not count either.
class EarlyStopping final : public Extension {
 public:
  /// Throws UsageError if `patience` is less than 1.
  EarlyStopping(Monitor monitor, std::int64_t patience);

  [[nodiscard]] std::string name() const override { return "EarlyStopping"; }
  [[nodiscard]] int priority() const override { return kPriorityReport + 1; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  [[nodiscard]] nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  void stop_if_due(Trainer& trainer) const;

  Monitor monitor_;
  std::int64_t patience_;
};

}  // namespace mn::extensions

/// The checkpoint of the best report.
#pragma once

#include <string>
#include <utility>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/monitor.hpp>

namespace mn::extensions {

/// Writes OUT/snapshot_best whenever the monitored value is the best so far. Trainer::resume() and load_model() read
/// it; "auto" and the removal of old checkpoints leave it alone. Looks for a new report in every iteration: give the
/// log a report where the value is made, as the weights are those of the report. Add it after the log and before
/// Snapshot, so that other checkpoints know the best too.
class BestSnapshot final : public Extension {
 public:
  /// `monitor` says which value, and which is better.
  explicit BestSnapshot(Monitor monitor) : monitor_(std::move(monitor)) {}

  [[nodiscard]] std::string name() const override { return "BestSnapshot"; }
  [[nodiscard]] int priority() const override { return kPriorityLast; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  [[nodiscard]] nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  Monitor monitor_;
};

}  // namespace mn::extensions

/// OUT/log: what training reports, as a JSON list with one object for each report.
#pragma once

#include <vector>

#include <mn/core/json.hpp>
#include <mn/train/extension.hpp>

namespace mn::extensions {

/// Each entry holds epoch, iteration, elapsed_time (s), images_per_second, lr, the means of the metrics since the last
/// entry ("main/loss", …) and what evaluators reported ("validation/main/loss", …). All are over all ranks; a value
/// that is not finite is null. Runs once an epoch unless another trigger is given. After a resume new entries follow
/// the checkpoint's.
class LogReport final : public Extension {
 public:
  [[nodiscard]] std::string name() const override { return "LogReport"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  void run(Trainer& trainer) override;
  [[nodiscard]] nlohmann::json state() const override { return entries_; }
  void load_state(const nlohmann::json& state) override { entries_ = state.get<std::vector<nlohmann::json>>(); }

  /// On every rank; elapsed_time and images_per_second are rank 0's in the file.
  [[nodiscard]] const std::vector<nlohmann::json>& entries() const noexcept { return entries_; }

 private:
  std::vector<nlohmann::json> entries_;
};

}  // namespace mn::extensions

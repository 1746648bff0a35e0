/// OUT/profile.jsonl and OUT/trace.json: where the time of each step goes, on each rank.
#pragma once

#include <cstdint>
#include <vector>

#include <mn/train/extension.hpp>
#include <mn/train/straggler.hpp>
#include <mn/train/trainer.hpp>

namespace mn::extensions {

/// profile.jsonl has a JSON object a line for each step: "iteration", and by rank "data_s", "compute_s",
/// "communication_s" (StepTimes) and "bytes"; after a resume lines are appended. A rank that computes persistently
/// longer than the others (StragglerDetector) is named in a warning, with its host.
///
/// trace.json shows the first kTracedSteps steps of this process in Chrome's trace format (chrome://tracing, Perfetto):
/// a process for each rank with the rows compute, communication and data. Clocks of different nodes are set to zero
/// together, behind a barrier.
///
/// The trainer and its optimizer must have been given a Trace. Ranks exchange their records every kWindow steps.
class Profile final : public Extension {
 public:
  static constexpr std::size_t kWindow = 20;
  static constexpr std::int64_t kTracedSteps = 200;

  [[nodiscard]] std::string name() const override { return "profile"; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

 private:
  void write_steps(Trainer& trainer);
  void name_stragglers(const Trainer& trainer, const std::vector<nlohmann::json>& steps_of);
  void write_trace(Trainer& trainer);

  Trace::Clock::time_point zero_;
  std::int64_t first_iteration_ = 0;
  bool tracing_ = true;
  std::vector<StepTimes> steps_;  // of the open window
  StragglerDetector detector_;
};

}  // namespace mn::extensions

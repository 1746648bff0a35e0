/// Writes OUT/profile.jsonl and OUT/trace.json. They show how long each step took on each rank, and which part of the
/// step took the time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/trainer/extension.hpp>

namespace mn {

struct StepTimes;

}  // namespace mn

namespace mn::extensions {

class AppendedFile;

/// profile.jsonl has a JSON object in one line for each step: "iteration", and for each rank "data_s", "compute_s",
/// "communication_s" and "bytes" (StepTimes). After a resume, new lines are appended to the file.
///
/// trace.json shows the first kTracedSteps steps of this process in Chrome's trace format (chrome://tracing, Perfetto):
/// each rank is a process with the rows compute, communication and data. All clocks start at zero after a barrier.
///
/// The trainer and its optimizer must share a Trace; without one, initialize() throws ArgumentError. Ranks exchange
/// their records after each window of kWindow steps.
class Profile final : public Extension {
 public:
  static constexpr std::size_t kWindow = 20;         ///< steps of a window
  static constexpr std::int64_t kTracedSteps = 200;  ///< steps in trace.json

  Profile();
  ~Profile() override;

  [[nodiscard]] std::string name() const override { return "profile"; }
  /// Runs before validations: after an interrupted validation, the resumed run would not know the times of the step.
  [[nodiscard]] int priority() const override { return kPriorityWriter + 1; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

 private:
  void write_steps(Trainer& trainer);
  void write_trace(Trainer& trainer);

  std::chrono::steady_clock::time_point zero_;
  std::int64_t first_iteration_ = 0;
  bool tracing_ = true;
  std::vector<StepTimes> steps_;        // times of the steps in the current window
  std::unique_ptr<AppendedFile> file_;  // rank 0's profile.jsonl
  std::string trace_;                   // text of trace.json, kept if a write has failed
  bool has_failed_ = false;
  bool has_trace_failed_ = false;
};

}  // namespace mn::extensions

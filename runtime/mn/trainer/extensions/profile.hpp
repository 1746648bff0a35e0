/// OUT/profile.jsonl and OUT/trace.json: where the time of each step goes, on each rank.
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

/// Judges windows of steps. Whether a rank is slow in a window is is_slow_rank()'s to say.
class StragglerDetector {
 public:
  static constexpr int kWindows = 3;  ///< windows in a row in which a straggler is slow

  /// A rank that keeps the others waiting.
  struct Straggler {
    std::size_t rank;  ///< its number
    double seconds;    ///< in the last window
    double median;     ///< the ranks' lower median in that window
  };

  /// `seconds` has one value for each rank: its time for a step of the window. Returns the ranks that have now been
  /// slow in kWindows windows in a row; a rank returns again only after a window in which it was not slow.
  [[nodiscard]] std::vector<Straggler> add(const std::vector<double>& seconds);

 private:
  std::vector<int> slow_windows_;  // in a row, by rank
};

}  // namespace mn

namespace mn::extensions {

/// profile.jsonl has a line for each step, a JSON object: "iteration", and for each rank "data_s", "compute_s",
/// "communication_s" and "bytes" (StepTimes). After a resume, lines are appended. A warning names a rank, with its
/// host, that has computed more than 1.25 times as long as the median of the ranks in three windows in a row.
///
/// trace.json shows the first kTracedSteps steps of this process in Chrome's trace format (chrome://tracing, Perfetto):
/// a process for each rank with the rows compute, communication and data. The ranks' clocks start at zero together,
/// after a barrier.
///
/// The trainer and its optimizer must share a Trace; without one, initialize() throws ArgumentError. Ranks exchange
/// their records after each window of kWindow steps.
class Profile final : public Extension {
 public:
  static constexpr std::size_t kWindow = 20;         ///< steps of a window
  static constexpr std::int64_t kTracedSteps = 200;  ///< steps in trace.json

  Profile();
  ~Profile() override;
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  [[nodiscard]] std::string name() const override { return "profile"; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

 private:
  void write_steps(Trainer& trainer);
  void name_stragglers(const Trainer& trainer, const std::vector<nlohmann::json>& steps_of);
  void write_trace(Trainer& trainer);

  std::chrono::steady_clock::time_point zero_;
  std::int64_t first_iteration_ = 0;
  bool tracing_ = true;
  std::vector<StepTimes> steps_;  // steps of the open window
  StragglerDetector detector_;
  bool has_failed_ = false;
};

}  // namespace mn::extensions

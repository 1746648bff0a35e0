/// OUT/log: what training reports, as a JSON list with one object for each report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// Each entry holds epoch, iteration, elapsed_time (seconds), lr (of several optimizers the first's, and "lr/NAME" of
/// the others) and Trainer::take_observation(): images_per_second, bytes_per_step, the means of metrics ("main/loss",
/// …) and what evaluators reported ("validation/main/loss", …).
/// Means are over all ranks; a value that is not finite is null. Runs once an epoch, unless another trigger is given;
/// a second call in an iteration does nothing. After a resume, new entries follow the checkpoint's, which holds them
/// all, 0.3 KB each: the file is never synced, may be changed or lost, and another run may begin from the same
/// checkpoint. A run's first report writes it from the beginning; later ones are appended, so that each costs the same.
class LogReport final : public Extension {
 public:
  LogReport();
  ~LogReport() override;
  LogReport(const LogReport&) = delete;
  LogReport& operator=(const LogReport&) = delete;

  [[nodiscard]] std::string name() const override { return "LogReport"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  [[nodiscard]] nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

  /// The number of that name in the last entry, such as "main/loss"; NaN where it is null. Throws ArgumentError that
  /// lists the names for any other.
  [[nodiscard]] double last(const std::string& name) const;
  /// All entries, on every rank. Those of elapsed_time, images_per_second and bytes_per_step are this rank's; the file
  /// has rank 0's. Reading them needs <nlohmann/json.hpp>.
  [[nodiscard]] const std::vector<nlohmann::json>& entries() const noexcept { return entries_; }

 private:
  void write(const Trainer& trainer);

  std::vector<nlohmann::json> entries_;
  std::uint64_t file_bytes_ = 0;  // what this process has written; 0: nothing
  bool has_failed_ = false;
};

}  // namespace mn::extensions

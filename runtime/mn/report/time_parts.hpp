/// Divides the time of a run into parts.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// Parts of the time, in the order of kPartNames.
enum Part { kCompute, kData, kCommunication, kValidation, kCheckpoint, kOther, kParts };
inline constexpr std::array<const char*, kParts> kPartNames = {
    "computing", "waiting for data", "communication and waiting for ranks", "validation", "checkpoints", "other"};

/// Seconds of each part. The first three parts are means over the ranks.
using TimeParts = std::array<double, kParts>;

/// The parts of the whole time of training; all 0 if run.jsonl has no times. kOther is the time that no other part has.
[[nodiscard]] TimeParts time_parts(const Run& run);

/// Seconds of computing, waiting for data and communication of each rank.
[[nodiscard]] std::vector<std::array<double, 3>> times_by_rank(const Run& run);

/// A rank for which the other ranks waited.
struct Straggler {
  std::size_t rank = 0;
  double share = 0;         ///< share of the steps' time that the other ranks lost
  double ratio = 1;         ///< its time for a step / the median rank's time, in reports in which it was slow
  std::size_t reports = 0;  ///< number of reports in which it was the slowest rank
};

/// The rank that cost the most time. If it was slow in fewer than half of the reports, or cost less than 2 % of the
/// time, returns rank 0 with a share of 0.
[[nodiscard]] Straggler find_straggler(const Run& run);

/// A bar of the run's parts, and a legend with seconds and shares; empty if there are no times.
[[nodiscard]] std::string time_bar(const Run& run);
/// A bar for each run, to compare runs; empty if no run has times.
[[nodiscard]] std::string time_bars(const std::vector<Run>& runs);
/// A bar for the steps of each rank; empty if there is a single rank.
[[nodiscard]] std::string rank_bars(const Run& run);

}  // namespace mn::report

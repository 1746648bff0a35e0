/// Divides the time of a run into parts, such as computing and communication, and draws the parts as bars.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// The parts of a run's time. kPartNames has their names in this order.
enum Part { kCompute, kData, kCommunication, kValidation, kCheckpoint, kOther, kParts };
inline constexpr std::array<const char*, kParts> kPartNames = {
    "computing", "waiting for data", "communication and waiting for ranks", "validation", "checkpoints", "other"};

/// The seconds of each part. The first three parts are means over the ranks.
using TimeParts = std::array<double, kParts>;

/// All parts are 0 if run.jsonl has no times. kOther is the time that belongs to no other part.
[[nodiscard]] TimeParts time_parts(const Run& run);

/// A slow rank, for which all other ranks have waited.
struct Straggler {
  std::size_t rank = 0;
  double share = 0;         ///< share of the steps' time that the other ranks lost by waiting
  double ratio = 1;         ///< its time for a step / the median rank's time, in the reports in which it was slow
  std::size_t reports = 0;  ///< number of reports in which it was the slowest rank
};

/// Finds the slow rank that has cost the most time. If this rank was slow in fewer than half of the reports, or has
/// cost less than 2 % of the time, returns rank 0 with a share of 0.
[[nodiscard]] Straggler find_straggler(const Run& run);

/// Draws a bar with the parts of the run's time, and a legend with seconds and shares. Empty if run.jsonl has no times.
[[nodiscard]] std::string time_bar(const Run& run);
/// Draws a bar for each run, so that their times can be compared. Empty if no run has times.
[[nodiscard]] std::string time_bars(const std::vector<Run>& runs);
/// Draws, for each rank, a bar for the time of its steps. Empty if there is only one rank.
[[nodiscard]] std::string rank_bars(const Run& run);

}  // namespace mn::report

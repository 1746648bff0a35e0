/// Where the time of a run went.
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

/// Seconds of each part; the first three are means over the ranks.
using TimeParts = std::array<double, kParts>;

/// The parts of the whole time; all 0 if run.jsonl has no times. The part `other` is the rest of the whole time.
[[nodiscard]] TimeParts time_parts(const Run& run);

/// Seconds of computing, waiting for data and communication of each rank.
[[nodiscard]] std::vector<std::array<double, 3>> times_by_rank(const Run& run);

/// A rank that kept the others waiting.
struct Straggler {
  std::size_t rank = 0;
  double share = 0;         ///< share of the steps' time that the others lost
  double ratio = 1;         ///< its time of a step, relative to the median rank's, where it was slow
  std::size_t reports = 0;  ///< number of reports in which it was the slowest rank
};

/// The rank that cost the most, if it was slow in at least half of the reports and cost at least 2 % of the time.
/// Otherwise rank 0 with a share of 0.
[[nodiscard]] Straggler find_straggler(const Run& run);

/// A bar of the parts, with a legend that has seconds and shares; empty if there are no times.
[[nodiscard]] std::string time_bar(const Run& run);
/// A bar of each run, for a comparison; empty if no run has times.
[[nodiscard]] std::string time_bars(const std::vector<Run>& runs);
/// A bar of each rank's steps; empty for a single rank.
[[nodiscard]] std::string rank_bars(const Run& run);

}  // namespace mn::report

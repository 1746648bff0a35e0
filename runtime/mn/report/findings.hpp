/// Finds problems of a run, for instance NaN in the loss, overfitting, or a slow rank.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

struct Finding {
  double cost = 0;     ///< share of the time that the problem costs; above 1: the result may be wrong
  std::string title;   ///< the problem, in one short sentence
  std::string advice;  ///< what to do, or more about the problem; may be empty
};

/// Whether a run has ended, and how; or whether it still runs.
enum class State {
  kFinished,  ///< ended as planned
  kFailed,    ///< ended with an error
  kStopped,   ///< ended before its limit, by a signal or the time limit
  kRunning,   ///< did not record an end, and wrote a line recently
  kQuiet,     ///< did not record an end, and wrote nothing for several times its longest pause between two lines
  kLost       ///< did not record an end, and wrote nothing for long
};

/// Returns the state of a run. `now` is the time in seconds since 1970.
[[nodiscard]] State state_of(const Run& run, double now);

/// Describes, for a run in the state kQuiet, how long it has been quiet, for instance "no report for 3 min 20 s".
[[nodiscard]] std::string quiet_text(const Run& run, double now);

/// Returns the findings about a run. The problem that costs most comes first. Warnings of the ranks come last.
[[nodiscard]] std::vector<Finding> findings_of(const Run& run, double now);

}  // namespace mn::report

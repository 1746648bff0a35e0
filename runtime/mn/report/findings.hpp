/// Finds problems of a run, for instance NaN, overfitting or a slow rank.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

struct Finding {
  double cost = 0;     ///< share of the time that is lost; above 1: the result may be wrong
  std::string title;   ///< the fact, one short sentence
  std::string advice;  ///< what to do, or more about it; may be empty
};

/// How a run stands.
enum class State {
  kFinished,  ///< ended as planned
  kFailed,    ///< ended with an error
  kStopped,   ///< ended before its limit, by a signal or the time limit
  kRunning,   ///< did not record an end, and wrote a line recently
  kQuiet,     ///< did not record an end, and wrote nothing for several times its longest pause between two lines
  kLost       ///< did not record an end, and wrote nothing for long
};

/// Finds out how a run stands. `now` is the time in seconds since 1970.
[[nodiscard]] State state_of(const Run& run, double now);

/// Describes a run whose state is kQuiet, for instance "no report for 3 min 20 s".
[[nodiscard]] std::string quiet_text(const Run& run, double now);

/// The findings of a run, the most costly first. The ranks' warnings come last.
[[nodiscard]] std::vector<Finding> findings_of(const Run& run, double now);

}  // namespace mn::report

/// Facts about a run that need a look.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

struct Finding {
  double cost = 0;     ///< share of the time that is lost; above 1: the result is at stake
  std::string title;   ///< the fact, one short sentence
  std::string advice;  ///< what to do, or more about it; may be empty
};

/// The state of a run.
enum class State {
  kFinished,  ///< ended as planned
  kStopped,   ///< ended before its limit, by a signal or the time limit
  kRunning,   ///< has no end yet, and wrote a line recently
  kLost       ///< has no end, and wrote nothing for long
};

/// `now` is in seconds since 1970.
[[nodiscard]] State state_of(const Run& run, double now);

/// The findings of a run, the most costly first. Ranks' warnings come last.
[[nodiscard]] std::vector<Finding> findings_of(const Run& run, double now);

}  // namespace mn::report

/// Makes the top of a page about one run: state, result, time and findings.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// Returns the job, the last start and the hosts of the runs: "mnist, 2026-11-25 08:00 UTC, n1 and 3 more". If
/// run.jsonl lacks one of the three, or if the runs differ in it, it is left out. There must be at least one run.
[[nodiscard]] std::string origin_of(const std::vector<Run>& runs);

/// Makes a colored label that says in a word or two whether and why the run has ended. `now` is in seconds since 1970.
[[nodiscard]] std::string state_label(const Run& run, double now);

/// Makes the page's header: the run's name, state, folder, start and hosts.
[[nodiscard]] std::string run_header(const Run& run, double now);

/// Makes boxes with the run's main values: metric and loss, time, speed, size.
[[nodiscard]] std::string tiles(const Run& run);

/// Lists the findings about the run. Three are visible, the most costly ones; a click shows all others.
[[nodiscard]] std::string findings_list(const Run& run, double now);

}  // namespace mn::report

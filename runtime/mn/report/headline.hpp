/// The top of a page about one run: state, result, time and findings.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// The runs' job, last start and hosts: "mnist, 2026-11-25 08:00 UTC, n1 and 3 more". Leaves out a part if run.jsonl
/// lacks it, or if it differs between the runs. There must be at least one run.
[[nodiscard]] std::string origin_of(const std::vector<Run>& runs);

/// A colored label that says in a word or two how the run stands, and why. `now` is the time in seconds since 1970.
[[nodiscard]] std::string state_label(const Run& run, double now);

/// The page's header: the run's name, state, folder, start and hosts.
[[nodiscard]] std::string run_header(const Run& run, double now);

/// Boxes with the run's main values: metric and loss, time, speed, size.
[[nodiscard]] std::string tiles(const Run& run);

/// The three most costly findings of the run. A click shows all others.
[[nodiscard]] std::string findings_list(const Run& run, double now);

}  // namespace mn::report

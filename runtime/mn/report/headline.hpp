/// The top of a page about one run: its state, its result, its time, and findings.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// "mnist, 2026-11-25 08:00 UTC, n1 and 3 more": job, last start and hosts. Omits a part if run.jsonl lacks it, or if
/// it differs between the runs. There must be at least one run.
[[nodiscard]] std::string origin_of(const std::vector<Run>& runs);

/// A colored label with the state, in a word or two, and the reason. `now` is in seconds since 1970.
[[nodiscard]] std::string state_label(const Run& run, double now);

/// A header with name, state, folder, start and hosts of the run.
[[nodiscard]] std::string run_header(const Run& run, double now);

/// Tiles with the main values: metric and loss, time, speed, size.
[[nodiscard]] std::string tiles(const Run& run);

/// The three most costly findings; a click unfolds the others.
[[nodiscard]] std::string findings_list(const Run& run, double now);

}  // namespace mn::report

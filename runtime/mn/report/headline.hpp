/// The top of a page about one run: whether it worked, how good, how long, and what to look at.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// "mnist, 2026-11-25 08:00 UTC, n1 and 3 more": job, last start and hosts. Omits parts missing in run.jsonl or
/// different between the runs (at least one).
[[nodiscard]] std::string origin_of(const std::vector<Run>& runs);

/// The state in a word or two with the reason, as a colored label. `now` is in seconds since 1970.
[[nodiscard]] std::string state_label(const Run& run, double now);

/// Name, state, folder, start and hosts.
[[nodiscard]] std::string run_header(const Run& run, double now);

/// Tiles with the main values: metric and loss, time, speed, size.
[[nodiscard]] std::string tiles(const Run& run);

/// The three most costly findings, and the others folded.
[[nodiscard]] std::string findings_list(const Run& run, double now);

}  // namespace mn::report

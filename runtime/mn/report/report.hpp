/// report.html: a page, without external files, about one run or several runs to compare.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mn {

/// The page for the runs in these folders. A single run: its state, final and best values, time and speed; at most
/// three findings (a run that did not end, NaN, overfitting, a rank or a part of a step that costs time, warnings), the
/// most costly first; curves; where the time went; command and options; images of OUT/images and texts of OUT/texts.
/// Several runs: a table, the best run first, with the options that differ, and curves on top of each other. Reads
/// OUT/log, and config.ini and run.jsonl if they exist. A browser reloads the page of a run that goes on. Local. Throws
/// DataError if a log is missing or damaged.
[[nodiscard]] std::string make_report(const std::vector<std::filesystem::path>& outs);

}  // namespace mn

/// Makes report.html: a page in a single file that shows one run or compares several runs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace mn {

/// True if the folder `out` has a run: a log or, before the first report, only run.jsonl.
[[nodiscard]] bool has_run(const std::filesystem::path& out);

/// A function that shows a message to the user.
using Note = std::function<void(const std::string&)>;

/// Not collective. Makes the page about the runs in the folders `outs`. For a single run, the page shows state, final
/// and best values, time and speed; findings, the most costly first, three of them visible without a click; curves; the
/// parts of the time; command and options; and the images of OUT/images and the texts of OUT/texts. Findings are
/// problems, such as a run that did not end, NaN, overfitting, a rank or a part of a step that costs time, or warnings.
/// For several runs, the page shows a table with the options that differ, the best run first, and curves in common
/// charts.
///
/// Reads OUT/log, run.jsonl and config.ini, as far as these files exist. If a run has not ended, a browser reloads the
/// page from time to time. Throws DataError if a folder has no run, or if the files of all runs are damaged. If only
/// some runs are damaged, the page leaves these runs out, and for each of them `note` gets a message that names the
/// file.
[[nodiscard]] std::string make_report(const std::vector<std::filesystem::path>& outs, const Note& note = {});

}  // namespace mn

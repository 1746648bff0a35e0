/// Makes report.html: a page in a single file that shows a run or compares several runs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace mn {

/// True if the folder `out` has a run: a log, or, before the first report, run.jsonl alone.
[[nodiscard]] bool has_run(const std::filesystem::path& out);

/// A function that shows a message to the user.
using Note = std::function<void(const std::string&)>;

/// Not collective: makes the page about the runs in the folders `outs`. For a single run the page shows state, final
/// and best values, time and speed; findings (a run that did not end, NaN, overfitting, a rank or a part of a step that
/// costs time, warnings), the most costly first, three of them unfolded; curves; the parts of the time; command and
/// options; images of OUT/images and texts of OUT/texts. For several runs it shows a table with the options that
/// differ, the best run first, and curves in common charts. Reads OUT/log, run.jsonl and config.ini, as far as they
/// exist. A browser reloads the page of a run that has not ended. Throws DataError if a folder has no run, or if the
/// files of all runs are damaged. If only some runs are damaged, the page leaves them out, and `note` gets a message
/// for each that names the file.
[[nodiscard]] std::string make_report(const std::vector<std::filesystem::path>& outs, const Note& note = {});

}  // namespace mn

/// report.html: one page, without outside assets, that shows a run or compares several.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mn {

/// The page for the runs that wrote these folders, in this order: last and best values and why it ended, the options
/// that differ from their defaults or between the runs, curves of all values of the log, where each rank's time went,
/// images that extensions wrote to OUT/images, and what is worth a look (a run that did not end, values that
/// are NaN or infinite, slow ranks, warnings). Reads OUT/log, and config.ini and run.jsonl where they are. Local.
/// Throws DataError if a log is absent or damaged.
[[nodiscard]] std::string make_report(const std::vector<std::filesystem::path>& outs);

}  // namespace mn

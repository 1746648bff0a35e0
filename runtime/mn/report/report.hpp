/// report.html: a page, without external files, about one run or several runs to compare.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mn {

/// The page for the runs in these folders, in this order: last and best values and the reason of the end; options that
/// differ from their defaults or between the runs; curves of all values in the log; where each rank's time went; images
/// that extensions wrote to OUT/images; and findings (a run that did not end, NaN and infinite values, slow ranks,
/// warnings). Reads OUT/log, and config.ini and run.jsonl if they exist. Local. Throws DataError if a log is missing or
/// damaged.
[[nodiscard]] std::string make_report(const std::vector<std::filesystem::path>& outs);

}  // namespace mn

/// Images and texts that a run wrote beside its reports.
#pragma once

#include <string>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// HTML with the images of OUT/images (*.png, *.jpg) and the texts of OUT/texts (*.txt) in it: a row for each NAME of
/// files NAME-ITERATION.png, the newest first. Empty if there are no files.
[[nodiscard]] std::string samples_of(const Run& run);

}  // namespace mn::report

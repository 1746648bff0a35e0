/// Shows the images and texts that a run has written beside its reports.
#pragma once

#include <string>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// Returns HTML that contains the images of OUT/images (*.png, *.jpg) and the texts of OUT/texts (*.txt). All files
/// called NAME-ITERATION.png with the same NAME are in one row, the newest file first. Empty if there are no files.
[[nodiscard]] std::string samples_of(const Run& run);

}  // namespace mn::report

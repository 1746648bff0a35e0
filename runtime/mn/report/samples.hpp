/// Images and texts that a run wrote beside its reports.
#pragma once

#include <string>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// HTML with the images of OUT/images (*.png, *.jpg) and the texts of OUT/texts (*.txt) in it. Files
/// NAME-ITERATION.png, as the extension Samples writes them (trainer/extensions/samples.hpp), make one row for each
/// NAME, the newest file first. Empty if there are no files.
[[nodiscard]] std::string samples_of(const Run& run);

}  // namespace mn::report

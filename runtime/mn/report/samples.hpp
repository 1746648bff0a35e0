/// Images and texts that a run wrote beside its reports.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// The images of OUT/images (*.png, *.jpg) and the texts of OUT/texts (*.txt), embedded. Files NAME-ITERATION.png, as
/// Samples writes (trainer/extensions/samples.hpp), are one row for each NAME, the newest first. Empty if there are
/// none.
[[nodiscard]] std::string samples_of(const Run& run);

}  // namespace mn::report

/// Files for a rank's standard output and error, by the pattern of --output (cli/output_pattern.hpp).
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <mn/core/fd.hpp>

#include "cli/output_pattern.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

/// Whether ranks append to their output files. They append if `append` is set, if several ranks write one file, in a
/// later step of a Slurm job, and in a job that Slurm has started again.
[[nodiscard]] bool appends(const std::string& pattern, bool append, const Variables& variables);

/// The batch system's number of this job; "0" without a batch system.
[[nodiscard]] std::string batch_job(const Variables& variables);

/// When this rank's step of a Slurm job began; no value outside of a step.
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> begin_of_step(const Variables& variables);

/// Slurm's number of this step; "0" outside of a step.
[[nodiscard]] std::string step_of_job(const Variables& variables);

/// A rank's output files. They are opened first, and standard output and error are sent to them later.
struct OutputFiles {
  Fd out;
  Fd err;
};
/// Creates the files and their folders. Files keep their contents. Throws UsageError.
[[nodiscard]] OutputFiles open_output(const std::string& pattern, const OutputNames& names);

/// Sends standard output and error to the files. Empties a file first, unless `append` is set, another process has
/// written the file since `begin`, or another process is writing it now. Throws Error.
void redirect_output(const OutputFiles& files, bool append, std::optional<std::chrono::system_clock::time_point> begin);

}  // namespace mn::launcher

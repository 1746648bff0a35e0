/// Files for a rank's standard output and error, by the pattern of --output (cli/output_pattern.hpp).
#pragma once

#include <string>

#include <mn/core/fd.hpp>

#include "place/variables.hpp"

namespace mn::launcher {

/// Whether ranks append to their output files. They append if `append` is set, if several ranks write one file, in a
/// later step of a Slurm job, and in a job that Slurm has started again.
[[nodiscard]] bool appends(const std::string& pattern, bool append, const Variables& variables);

/// The batch system's number of this job; "0" without a batch system.
[[nodiscard]] std::string batch_job(const Variables& variables);

/// A rank's output files. They are opened first, and standard output and error are sent to them later.
struct OutputFiles {
  Fd out;
  Fd err;
};
/// Creates the files of rank `rank` and their folders. Files keep their contents. Throws UsageError.
[[nodiscard]] OutputFiles open_output(const std::string& pattern, int rank, const Variables& variables);

/// Sends standard output and error to the files. Empties a file first, unless ranks append, another process has written
/// the file since the step of the Slurm job began, or another process is writing it now. Throws Error.
void redirect_output(const OutputFiles& files, const std::string& pattern, bool append, const Variables& variables);

}  // namespace mn::launcher

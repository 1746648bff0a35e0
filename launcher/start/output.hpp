/// Opens the files for a rank's standard output and standard error. The option --output gives the pattern of the files'
/// names (cli/output_pattern.hpp).
#pragma once

#include <string>

#include <mn/core/fd.hpp>

#include "place/variables.hpp"

namespace mn::launcher {

/// Whether a rank appends to its output files instead of emptying them. A rank appends if `append` is set, if several
/// ranks write to the same file, in a later step of a Slurm job, and in a job that Slurm has started again.
[[nodiscard]] bool appends(const std::string& pattern, bool append, const Variables& variables);

/// The number that the batch system gives to this job; "0" without a batch system.
[[nodiscard]] std::string batch_job(const Variables& variables);

/// The output files of a rank. The files are opened first; later, standard output and standard error are sent to the
/// files.
struct OutputFiles {
  Fd out;
  Fd err;
};
/// Opens the output files of the rank `rank`, and creates missing files and folders. Existing files keep their contents
/// for now. Throws UsageError.
[[nodiscard]] OutputFiles open_output(const std::string& pattern, int rank, const Variables& variables);

/// Sends standard output and standard error to the files. Each file is emptied first, unless ranks append, another
/// process has written to the file since the step of the Slurm job began, or another process is writing to the file
/// now. Throws Error.
void redirect_output(const OutputFiles& files, const std::string& pattern, bool append, const Variables& variables);

}  // namespace mn::launcher

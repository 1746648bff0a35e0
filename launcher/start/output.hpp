/// Opens the files for a rank's standard output and error, by the pattern of --output (cli/output_pattern.hpp).
#pragma once

#include <string>

#include <mn/core/fd.hpp>

#include "place/variables.hpp"

namespace mn::launcher {

/// Whether a rank appends: if `append` is set, if several ranks write to one file, in a later step of a Slurm job, or
/// in a job that Slurm has started again.
[[nodiscard]] bool appends(const std::string& pattern, bool append, const Variables& variables);

/// The batch system's number of this job; "0" without a batch system.
[[nodiscard]] std::string batch_job(const Variables& variables);

/// The open output files of a rank.
struct OutputFiles {
  Fd out;
  Fd err;
};
/// Opens the output files, and creates missing folders. Existing contents stay for now. Throws UsageError.
[[nodiscard]] OutputFiles open_output(const std::string& pattern, int rank, const Variables& variables);

/// Redirects standard output and error to the files. First empties each file, unless ranks append, another process
/// writes to the file, or has written since the step began. Throws Error.
void redirect_output(const OutputFiles& files, const std::string& pattern, bool append, const Variables& variables);

}  // namespace mn::launcher

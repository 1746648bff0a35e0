/// Where a rank's standard output and error go.
///
/// --output names a folder, for files rank-0000.out and .err, or a pattern with % in it:
///   %r   rank; %4r with four digits          %h   host
///   %j   number of the batch system's job    %t   out or err; without it both streams go to one file
///   %s   number of the job's step            %%   a percent sign
#pragma once

#include <filesystem>
#include <string>

#include <mn/core/fd.hpp>

#include "place/variables.hpp"

namespace mn::launcher {

/// What a pattern's letters stand for.
struct OutputNames {
  int rank = 0;
  std::string job;
  std::string host;
  std::string step;
};

/// Throws UsageError that names a letter without meaning.
void check_output_pattern(const std::string& pattern);

/// The file for the stream "out" or "err".
[[nodiscard]] std::filesystem::path output_file(const std::string& pattern, const OutputNames& names,
                                                const std::string& stream);

/// Whether files are appended to: where `append` asks for it, in a later step of a Slurm job or one that Slurm has
/// started again, and where several ranks write one file.
[[nodiscard]] bool appends(const std::string& pattern, bool append, const Variables& variables);

/// The batch system's number of this job; "0" without one.
[[nodiscard]] std::string batch_job(const Variables& variables);

/// Slurm's number of this step; "0" without one.
[[nodiscard]] std::string step_of_job(const Variables& variables);

/// A rank's files, open but not yet used. Without them its streams stay as they are.
struct OutputFiles {
  Fd out;
  Fd err;
};
/// Makes the files, and the folders that they lie in, and leaves alone what they hold. Throws UsageError.
[[nodiscard]] OutputFiles open_output(const std::string& pattern, const OutputNames& names);

/// Sends standard output and error there: behind what the files hold, or in place of it, unless another process is
/// writing them. Throws Error.
void redirect_output(const OutputFiles& files, bool append);

}  // namespace mn::launcher

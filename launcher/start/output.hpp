/// Where a rank's standard output and error go: files by the pattern of --output (cli/output_pattern.hpp).
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <mn/core/fd.hpp>

#include "cli/output_pattern.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

/// Whether files are appended to: where `append` asks for it, in a later step of a Slurm job or one that Slurm has
/// started again, and where several ranks write one file.
[[nodiscard]] bool appends(const std::string& pattern, bool append, const Variables& variables);

/// The batch system's number of this job; "0" without one.
[[nodiscard]] std::string batch_job(const Variables& variables);

/// When this rank's step of a Slurm job began; no value without one.
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> begin_of_step(const Variables& variables);

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
/// writing them or has written them since `begin`. Throws Error.
void redirect_output(const OutputFiles& files, bool append, std::optional<std::chrono::system_clock::time_point> begin);

}  // namespace mn::launcher

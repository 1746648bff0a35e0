/// Decides whether a job may start, and makes the text that the speaker prints.
#pragma once

#include <string>

#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/fields.hpp>

#include "checks/findings.hpp"
#include "cli/options.hpp"
#include "place/placement.hpp"

namespace mn::launcher {

/// Thrown if the checks decide that the job must not start. With an empty text, this rank prints nothing, because a
/// different rank prints the reason.
class CheckFailed : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return kExitCheckFailed; }
};

struct Verdict {
  int exit_code = 0;       ///< 0: start the program; 78: a failed check; 126 or 127: there is no program to run
  std::string output;      ///< for standard output: the table, or a JSON document
  std::string complaints;  ///< for standard error: a line for each finding
  std::string report;      ///< with --doctor: findings and placement as JSON, for the self test's report
  // A message without an exit code is an error, because an absent code would read as 0 and start the job.
  MN_FIELDS(exit_code, output, complaints, report);
  MN_NEEDED_FIELDS(exit_code);
};

/// The verdict on a job that cannot start because of `findings`.
[[nodiscard]] Verdict reject(const Findings& findings, const Options& options);

/// Runs the checks. `here`: the placement of the rank that decides. `program_exit`: 126 or 127 if this rank cannot run
/// the program, else 0. If no node can run the program, `program_exit` becomes the verdict's exit code.
[[nodiscard]] Verdict decide(const JobFacts& job, const Options& options, const Placement& here, int program_exit);

}  // namespace mn::launcher

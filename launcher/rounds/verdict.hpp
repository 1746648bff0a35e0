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

/// The checks do not let the job start. If the text is empty, a different rank prints the reason.
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
  // `exit_code` is needed: a message without it, read as 0, would start the job.
  MN_FIELDS(exit_code, output, complaints, report);
  MN_NEEDED_FIELDS(exit_code);
};

/// The verdict that the job does not start because of `findings`.
[[nodiscard]] Verdict reject(const Findings& findings, const Options& options);

/// Runs the checks and returns the verdict. `here` is the deciding rank's placement. `program_exit` is 126 or 127 if
/// this rank cannot run the program, else 0; if no node can, `program_exit` becomes the exit code.
[[nodiscard]] Verdict decide(const JobFacts& job, const Options& options, const Placement& here, int program_exit);

}  // namespace mn::launcher

/// Whether a job may start, and what its rank 0 prints.
#pragma once

#include <string>

#include "checks/findings.hpp"
#include "checks/job_facts.hpp"
#include "cli/options.hpp"
#include "place/placement.hpp"

namespace mn::launcher {

struct Verdict {
  int exit_code = 0;       ///< 0: go; 78: a failed check; 126 or 127: there is no program to run
  std::string output;      ///< for standard output: the table, or a JSON document
  std::string complaints;  ///< for standard error: one line for each finding
  std::string report;      ///< with --doctor: findings and placement as JSON, for the self test to print with its own
};

/// The verdict on a job that cannot start because of `findings`.
[[nodiscard]] Verdict reject(const Findings& findings, const Options& options);

/// `here`: of the rank that decides. `program_exit` is the exit code of a shell that could not run the program. It
/// becomes the verdict's where no node can run it.
[[nodiscard]] Verdict decide(const JobFacts& job, const Options& options, const Placement& here, int program_exit);

}  // namespace mn::launcher

/// Whether a job may start, as rank 0 decides, and what it prints.
#pragma once

#include <string>

#include "checks/job_facts.hpp"
#include "options.hpp"
#include "place/placement.hpp"

namespace mn::launcher {

struct Verdict {
  int exit_code = 0;       ///< 0: go; 78: a failed check; 126 or 127: there is no program to run
  std::string output;      ///< for standard output: the table, or a JSON document
  std::string complaints;  ///< for standard error: one line for each finding
  std::string report;      ///< with --doctor: findings and placement as JSON, for the self test to print with its own
};

/// `program_exit` is the exit code of a shell that could not run the program. It becomes the verdict's where no node
/// can run it.
[[nodiscard]] Verdict decide(const JobFacts& job, const Options& options, const Placement& here, int program_exit);

}  // namespace mn::launcher

/// Whether a job may start, and what its rank 0 prints.
#pragma once

#include <string>

#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>

#include "checks/findings.hpp"
#include "checks/job_facts.hpp"
#include "cli/options.hpp"
#include "place/placement.hpp"

namespace mn::launcher {

/// The job must not start. An empty text: another rank says why.
class CheckFailed : public Error {
 public:
  explicit CheckFailed(const std::string& what, bool on_all_ranks = false) : Error(what), on_all_ranks_(on_all_ranks) {}
  [[nodiscard]] int exit_code() const noexcept override { return kExitCheckFailed; }
  [[nodiscard]] bool on_all_ranks() const noexcept override { return on_all_ranks_; }

 private:
  bool on_all_ranks_;
};

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

/// The last steps of a start. prepare_start() comes before the last agreement of all ranks, start() after it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <mn/core/fd.hpp>
#include <mn/core/start_links.hpp>

#include "cli/options.hpp"
#include "exchange/exchange.hpp"
#include "place/variables.hpp"
#include "rounds/roster.hpp"
#include "start/output.hpp"

namespace mn::launcher {

/// A connection to another rank that stays open in the program, for mn/job/start_watch.hpp.
struct KeptLink {
  Fd socket;  ///< closed by exec, unless start() leaves it open
  StartLink link;
};

/// What a rank has prepared in the last round, for use until exec.
struct PreparedStart {
  std::optional<OutputFiles> output;
  std::vector<KeptLink> links;
};

/// Binds the process to its CPUs and memory, and opens the output files. May fail on a single rank. Throws Error.
[[nodiscard]] PreparedStart prepare_start(const ThisRank& rank, const Outcome& outcome);

/// Exports variables, and replaces this process by the program (with --doctor by the self test). Throws Error.
[[noreturn]] void start(const ThisRank& rank, const Outcome& outcome, const PreparedStart& prepared);

[[nodiscard]] std::vector<KeptLink> keep_links(const Exchange& exchange, const Roster& roster);

/// The program that --doctor starts (folder selftest/). It lies beside mnlaunch.
[[nodiscard]] std::string path_of_self_test();

/// Throws UsageError if MN_DOCTOR_TIMEOUT is set to anything but a number of at least 1.
void require_time_of_doctor(const Variables& variables);

/// Throws UsageError unless --save and --history name files (not devices or pipes) and --against names a report. Only
/// rank 0 reads and writes them.
void require_files_of_doctor(const Options& options);

}  // namespace mn::launcher

/// The last steps of a start. prepare_start() binds the rank and opens its output files, before the last agreement of
/// all ranks. start() then exports variables, redirects the output, and becomes the program.
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

/// A connection to another rank that stays open in the program. If the connection ends before MPI is initialized,
/// mn::Job concludes that the rank at the far end has died (mn/job/start_watch.hpp).
struct KeptLink {
  Fd socket;  ///< closed by exec, unless start() leaves it open
  StartLink link;
};

/// What a rank has prepared for its start, and keeps from the last round until exec.
struct PreparedStart {
  std::optional<OutputFiles> output;
  std::vector<KeptLink> links;
};

/// Prepares the start: binds the process to its CPUs and memory, and opens the output files. These steps come before
/// the last agreement, because they can fail on a single rank. Throws Error.
[[nodiscard]] PreparedStart prepare_start(const ThisRank& rank, const Outcome& outcome);

/// Exports variables, and replaces this process by the program or, with --doctor, by the self test. Throws Error.
[[noreturn]] void start(const ThisRank& rank, const Outcome& outcome, const PreparedStart& prepared);

/// Returns duplicates of all connections of this rank to other ranks.
[[nodiscard]] std::vector<KeptLink> keep_links(const Exchange& exchange, const Roster& roster);

/// The path of the self test (folder selftest/), the program that --doctor starts. The program lies in the folder of
/// mnlaunch.
[[nodiscard]] std::string path_of_self_test();

/// Throws UsageError if MN_DOCTOR_TIMEOUT is set to anything but a number of at least 1.
void require_time_of_doctor(const Variables& variables);

/// Throws UsageError unless --save and --history name files (not devices or pipes) and --against names a report. Only
/// rank 0 calls this function, because only rank 0 reads and writes the files.
void require_files_of_doctor(const Options& options);

}  // namespace mn::launcher

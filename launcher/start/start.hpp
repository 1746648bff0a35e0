/// The last step of a start, once all ranks have agreed: exports, bindings, output, exec.
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

/// A connection of the exchange that stays open in the program. If the connection ends before MPI is initialized,
/// mn::Job concludes that the rank at the far end has died (mn/job/start_watch.hpp).
struct KeptLink {
  Fd socket;  ///< closed by exec, unless start() leaves it open
  StartLink link;
};

/// What a rank keeps between the last round and exec.
struct PreparedStart {
  std::optional<OutputFiles> output;
  std::vector<KeptLink> links;
};

/// Does the steps of a start that can fail on a single rank: binds the process and opens the output files. Throws
/// Error.
[[nodiscard]] PreparedStart prepare_start(const ThisRank& rank, const Outcome& outcome);

/// Exports variables and becomes the program or, with --doctor, the self test. Throws Error.
[[noreturn]] void start(const ThisRank& rank, const Outcome& outcome, const PreparedStart& prepared);

/// Duplicates of all connections of this rank.
[[nodiscard]] std::vector<KeptLink> keep_links(const Exchange& exchange, const Roster& roster);

/// The path of the self test of --doctor, a program (selftest/) that lies in the folder of mnlaunch.
[[nodiscard]] std::string path_of_self_test();

/// Throws UsageError if MN_DOCTOR_TIMEOUT is set, but is not a number of at least 1.
void require_time_of_doctor(const Variables& variables);

/// Rank 0 calls this, because it reads and writes the files. Throws UsageError unless --save and --history name files
/// (not devices or pipes) and --against names a report.
void require_files_of_doctor(const Options& options);

}  // namespace mn::launcher

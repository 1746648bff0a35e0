#include "launch.hpp"

#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/standard_output.hpp>

#include "facts/find_files.hpp"
#include "facts/surroundings.hpp"
#include "place/ask_pmi_server.hpp"
#include "place/ask_pmix_server.hpp"
#include "place/derive_rank.hpp"
#include "rounds/agree.hpp"
#include "rounds/arrive.hpp"
#include "rounds/compare.hpp"
#include "rounds/rendezvous.hpp"
#include "rounds/roster.hpp"
#include "start/start.hpp"

namespace mn::launcher {
namespace {

using Milliseconds = std::chrono::milliseconds;

bool is_socket(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

JobServer ask_server(const LauncherRow& launcher, const Signs& signs, const std::filesystem::path& program,
                     Milliseconds patience) {
  const Variables& variables = signs.variables;
  if (!launcher.needs_server(signs)) return {};
  if (launcher.launcher != Launcher::kPmix) return ask_pmi_server(variables, patience);
  return ask_pmix_server(variables, folders_of_mpi(program, variables.get("LD_LIBRARY_PATH").value_or("")), patience);
}

/// Returns the launcher that places the rank while the PMIx server is silent (`why_silent`). Throws Error.
const LauncherRow& launcher_beside_pmix(const Signs& signs, const std::string& why_silent) {
  const LauncherRow& other = launcher_without_server(signs);
  if (other.launcher != Launcher::kNone) return other;
  throw Error(why_silent +
              "; unset the PMIX_* variables of a launcher that has ended, or start mnlaunch directly under one "
              "that lives");
}

struct Connection {
  Placement here;
  Group group;
  std::string not_compared;  ///< why the group lacks the ranks of other nodes; empty if it has all ranks of the job
};

/// Finds this rank's placement and group. If variables do not tell the whole placement, asks a PMIx or PMI server;
/// collective in a job on several nodes. If the program needs a variable to connect to a PMIx server after mnlaunch,
/// sets this variable in `variables`.
Connection connect_to_launcher(Variables& variables, const std::filesystem::path& program, const Options& options) {
  reject_torchrun(variables);
  const Signs signs = read_signs(variables, is_socket);
  const LauncherRow& innermost = innermost_launcher(signs);
  if (innermost.launcher == Launcher::kNone) reject_one_of_many(variables);

  const JobServer server = ask_server(innermost, signs, program, std::chrono::seconds(options.timeout_s));
  const LauncherRow& launcher = server.why_silent.empty() ? innermost : launcher_beside_pmix(signs, server.why_silent);

  Connection connection;
  Placement& here = connection.here = find_placement(launcher, signs, server.job);
  Group& group = connection.group = group_of(here, variables, options);
  const bool has_other_nodes = here.inter_size != 1;
  if (server.job) {
    if (has_other_nodes) meet_on_board(group, here, *server.job, *server.board);
    // The program needs a free lock in the PMIx server's shared-memory store (ask_pmix_server.hpp). If the locks cannot
    // be freed, the program must use the store "hash". It names a wrong node if mpiexec's own node has no ranks.
    if (launcher.launcher == Launcher::kPmix && !free_locks_of_store()) variables.set("PMIX_MCA_gds", "hash");
  } else {
    name_job_by_variables(group, here, variables);
    if (has_other_nodes) connection.not_compared = meet_by_variables(group, here, variables, server.why_silent);
  }
  lead_if_nobody_does(group, here);
  return connection;
}

Surroundings look_around(const Options& options, const Variables& variables) {
  Surroundings surroundings;
  surroundings.variables = variables;
  surroundings.root = hardware_root(variables.get("MN_HARDWARE_ROOT"));
  surroundings.check_files = options.check_files;
  surroundings.arguments = options.program;
  if (options.doctor && surroundings.arguments.empty()) surroundings.arguments = {path_of_self_test()};
  std::error_code error;
  surroundings.folder = std::filesystem::current_path(error);
  if (error) surroundings.folder = std::filesystem::read_symlink("/proc/self/cwd", error);  // "/home/me/x (deleted)"
  return surroundings;
}

/// An error is noted in `rank`, not thrown, because the checks compare the nodes before rank 0 reports it.
void look_for_program(ThisRank& rank) {
  Surroundings& here = rank.surroundings;
  if (here.arguments.empty()) return;                                                    // --dry-run needs none
  const std::string search_path = here.variables.get("PATH").value_or("/bin:/usr/bin");  // as execvp(3)
  try {
    here.program = find_program(here.arguments[0], here.folder, executable_path().parent_path(), search_path);
    check_runnable(here.program, search_path);
    check_script(here.program, here.arguments, here.folder, search_path);
  } catch (const ProgramError& failure) {
    here.program.clear();
    here.program_error = failure.what();
    rank.program_exit = failure.exit_code();
  }
}

/// Completes this rank's message of round 1. Throws UsageError; the root turns it into the verdict for all ranks.
void describe_rank(Arrival& arrival, std::optional<Marker>& marker, const ThisRank& rank, bool is_whole) {
  for (const auto* error : {&rank.here.error, &rank.options.error}) {
    if (!error->empty()) throw UsageError(*error);
  }
  if (rank.options.doctor) require_time_of_doctor(rank.surroundings.variables);
  if (rank.here.rank != 0) return;
  if (rank.options.doctor) require_files_of_doctor(rank.options);
  if (is_whole) arrival.master_port = free_port_of_job(rank.here.job, rank.options.ports, is_free_port);
  if (!rank.is_compared() || rank.here.inter_size == 1) return;
  marker.emplace(output_folder(rank.surroundings), host_name() + "-" + std::to_string(getpid()));
  arrival.marker = marker->name();
}

/// Runs rounds 1 and 2. Round 1 answers with this rank's final numbers (NodeNumbers), which round 2 needs.
Outcome compare_with_others(Exchange& exchange, ThisRank& rank, bool is_whole, Roster& roster) {
  std::optional<Marker> marker;  // exists until all nodes have looked for the file
  try {
    roster = arrive(exchange, rank, is_whole, [&](Arrival& own) { describe_rank(own, marker, rank, is_whole); });
  } catch (const CutOff&) {
    if (!rank.here.error.empty()) throw UsageError(rank.here.error);
    throw;
  }
  const ArrivalShare& share = roster.share;
  if (share.verdict.exit_code != 0) return {.master = {}, .binding = {}, .gpus = {}, .verdict = share.verdict};
  static_cast<NodeNumbers&>(rank.here) = share.numbers;
  return compare_nodes(exchange, rank, roster, facts_of_this_machine(rank));
}

void print_notes(const Connection& connection, const ThisRank& rank) {
  if (rank.here.rank != 0) return;
  if (!connection.not_compared.empty() && rank.options.check != CheckLevel::kOff) {
    std::cerr << "mnlaunch: note: " + connection.not_compared + "; the nodes were not compared" +
                     master_elsewhere(rank.surroundings.variables) +
                     " (srun and Open MPI's mpiexec make that possible)\n";
  }
  if (rank.options.show && connection.group.keys) {
    std::cerr << "mnlaunch: note: the key by which the nodes know each other " + connection.group.keys->origin() + "\n";
  }
}

/// Ends the exchange and returns `exit_code`. Rank 0 leaves first: mpiexec kills all ranks at the first bad exit, and
/// rank 0's line must come before.
int leave(Exchange& exchange, int exit_code, int rank) {
  constexpr std::chrono::milliseconds kDelay{500};
  exchange.leave();
  std::this_thread::sleep_for(rank == 0 ? kUntilShown : kDelay);
  return exit_code;
}

/// Runs rounds 1 to 3. Returns the exit status if the program must not start; otherwise fills `outcome` and `prepared`.
std::optional<int> decide_with_others(const Connection& connection, ThisRank& rank, Outcome& outcome,
                                      PreparedStart& prepared) {
  Exchange exchange(connection.group);
  Roster roster;
  outcome = compare_with_others(exchange, rank, connection.not_compared.empty(), roster);
  const auto unwritten = failure_of(rank.here, [&] { write_standard_output(outcome.verdict.output); });
  std::cerr << outcome.verdict.complaints << std::flush;
  const bool goes_on = outcome.verdict.exit_code == 0;
  const bool is_fatal = goes_on && rank.options.dry_run;  // --dry-run has no result but the table
  if (unwritten && !is_fatal) std::cerr << "mnlaunch: " + unwritten->text + "\n";
  if (!goes_on) return leave(exchange, outcome.verdict.exit_code, rank.here.rank);
  print_notes(connection, rank);
  const Verdict verdict = agree(exchange, rank.here, roster, [&] {
    if (rank.options.dry_run && unwritten) throw Error(unwritten->text);
    if (rank.options.dry_run) return;
    if (rank.surroundings.program.empty()) throw ProgramError(rank.surroundings.program_error, rank.program_exit);
    prepared = prepare_start(rank, outcome);
  });
  std::cerr << verdict.complaints << std::flush;
  if (verdict.exit_code != 0) return leave(exchange, verdict.exit_code, rank.here.rank);
  if (rank.options.dry_run) return 0;
  prepared.links = keep_links(exchange, roster);
  return std::nullopt;
}

}  // namespace

int launch(const Options& options, Variables variables) {
  ThisRank rank{.options = options, .surroundings = look_around(options, variables), .program_exit = 0, .here = {}};
  look_for_program(rank);
  const Connection connection = connect_to_launcher(rank.surroundings.variables, rank.surroundings.program, options);
  rank.here = connection.here;
  Outcome outcome;
  PreparedStart prepared;
  if (const auto exit_status = decide_with_others(connection, rank, outcome, prepared)) return *exit_status;
  start(rank, outcome, prepared);
}

}  // namespace mn::launcher

#include "launch.hpp"

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <thread>
#include <utility>

#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>

#include "connect.hpp"
#include "facts/find_program.hpp"
#include "facts/job_port.hpp"
#include "facts/program_output_folder.hpp"
#include "facts/runnable.hpp"
#include "place/slurm.hpp"
#include "rounds/agree.hpp"
#include "rounds/arrive.hpp"
#include "rounds/compare.hpp"
#include "rounds/this_rank.hpp"
#include "start/start.hpp"

namespace mn::launcher {
namespace {

/// Finds the program; that there is none is a finding, which rank 0 reports for all.
void look_for_program(ThisRank& rank) {
  Surroundings& here = rank.surroundings;
  if (here.arguments.empty()) return;  // --dry-run needs none
  try {
    here.program = find_program(here.arguments[0], here.folder, executable_path().parent_path(),
                                here.variables.get("PATH").value_or("/bin:/usr/bin"));  // as execvp(3)
    check_runnable(here.program);
    check_script(here.arguments, here.folder);
  } catch (const ProgramError& failure) {
    here.program.clear();
    here.program_error = failure.what();
    rank.program_exit = failure.exit_code();
  }
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
  return surroundings;
}

void say(const Verdict& verdict) {
  std::cout << verdict.output << std::flush;
  if (!std::cout) std::cerr << with_errno("mnlaunch: cannot write standard output", errno) << std::endl;
  std::cerr << verdict.complaints << std::flush;
}

/// All ranks together, but rank 0 first: at the first bad exit mpiexec kills the rest, and its line must come out.
int leave(Exchange& exchange, int exit_code, int rank) {
  constexpr std::chrono::milliseconds kDelay{500};
  exchange.leave();
  std::this_thread::sleep_for(rank == 0 ? kUntilShown : kDelay);
  return exit_code;
}

void note_not_compared(const Connection& connection, const ThisRank& rank) {
  if (connection.not_compared.empty() || rank.here.rank != 0 || rank.options.check == CheckLevel::kOff) return;
  const Variables& variables = rank.surroundings.variables;
  const bool has_master = variables.has("MASTER_ADDR") || !first_host_of_allocation(variables).empty();
  std::cerr << "mnlaunch: note: " << connection.not_compared << "; the nodes were not compared"
            << (has_master ? "" : ", and other nodes than this get no MASTER_ADDR unless you export it")
            << " (srun and Open MPI's mpiexec make that possible)" << std::endl;
}

void note_key(const Connection& connection, const Options& options) {
  if (!options.show || connection.here.rank != 0 || !connection.group.keys) return;
  std::cerr << "mnlaunch: note: the key by which the nodes know each other " << connection.group.keys->origin()
            << std::endl;
}

/// The self test writes it when all is done: what is there must be a file, as devices and pipes would be replaced or
/// waited for. Throws UsageError.
void require_file(const std::string& option, const std::string& path) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (path.empty() || !std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
  throw UsageError(option + ": " + path + " is not a file");
}

/// The files of --doctor. Throws UsageError.
void require_files(const Options& options) {
  require_file("--save", options.save);
  require_file("--history", options.history);
  try {
    if (!options.against.empty()) static_cast<void>(parse_json(read_file(options.against), options.against));
  } catch (const Error& error) {
    throw UsageError(std::string("--against: ") + error.what());
  }
}

/// What rank 0 tells the others of itself. Options that are wrong on one rank are the failure of all.
void describe_rank(Arrival& arrival, std::optional<Marker>& marker, const ThisRank& rank) {
  if (!rank.options.error.empty()) throw UsageError(rank.options.error);
  if (rank.here.rank != 0) return;
  require_files(rank.options);
  arrival.master_port = free_port_of_job(rank.here.job, rank.options.ports, is_free_port);
  if (!rank.is_compared() || rank.here.inter_size == 1) return;
  marker.emplace(output_folder(rank.surroundings), host_name() + "-" + std::to_string(getpid()));
  arrival.marker = marker->name();
}

/// Collective: takes the rank's final numbers from the others, and their verdict.
Outcome exchange_facts(Exchange& exchange, ThisRank& rank, bool is_whole, Roster& roster) {
  std::optional<Marker> marker;  // until all nodes have looked for it
  roster = arrive(exchange, rank, is_whole, [&](Arrival& own) { describe_rank(own, marker, rank); });
  const StartShare& share = roster.share;
  if (share.verdict.exit_code != 0) return {.master = {}, .binding = {}, .gpus = {}, .verdict = share.verdict};
  static_cast<NodeNumbers&>(rank.here) = share.numbers;
  return compare_nodes(exchange, rank, roster, facts_of_this_machine(rank));
}

/// Returns an exit status only if the program is not to be started.
std::optional<int> agree_on_start(const Connection& connection, ThisRank& rank, Outcome& outcome, Prepared& prepared) {
  Exchange exchange(connection.group);
  Roster roster;
  outcome = exchange_facts(exchange, rank, connection.not_compared.empty(), roster);
  say(outcome.verdict);
  if (outcome.verdict.exit_code != 0) return leave(exchange, outcome.verdict.exit_code, rank.here.rank);
  note_not_compared(connection, rank);
  note_key(connection, rank.options);
  if (rank.options.dry_run) return std::cout ? 0 : 1;
  const Verdict verdict = agree(exchange, rank.here, roster, [&] {
    if (rank.surroundings.program.empty()) throw ProgramError(rank.surroundings.program_error, rank.program_exit);
    prepared = prepare_start(rank, outcome);
  });
  say(verdict);
  if (verdict.exit_code != 0) return leave(exchange, verdict.exit_code, rank.here.rank);
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
  Prepared prepared;
  if (const auto exit_code = agree_on_start(connection, rank, outcome, prepared)) return *exit_code;
  start(rank, outcome, prepared);
}

}  // namespace mn::launcher

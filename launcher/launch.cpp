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
#include <mn/core/standard_output.hpp>

#include "connect.hpp"
#include "facts/find_program.hpp"
#include "facts/job_port.hpp"
#include "facts/program_output_folder.hpp"
#include "facts/runnable.hpp"
#include "rounds/agree.hpp"
#include "rounds/arrive.hpp"
#include "rounds/compare.hpp"
#include "rounds/rendezvous.hpp"
#include "rounds/this_rank.hpp"
#include "start/start.hpp"

namespace mn::launcher {
namespace {

/// Finds the program; that there is none is a finding, which rank 0 reports for all.
void look_for_program(ThisRank& rank) {
  Surroundings& here = rank.surroundings;
  if (here.arguments.empty()) return;                                                    // --dry-run needs none
  const std::string search_path = here.variables.get("PATH").value_or("/bin:/usr/bin");  // as execvp(3)
  try {
    here.program = find_program(here.arguments[0], here.folder, executable_path().parent_path(), search_path);
    check_runnable(here.program);
    check_script(here.program, here.arguments, here.folder, search_path);
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
  if (error) surroundings.folder = std::filesystem::read_symlink("/proc/self/cwd", error);  // "/home/me/x (deleted)"
  return surroundings;
}

/// Returns why standard output was not written, if it was not.
std::optional<Failure> say(const Verdict& verdict, const Placement& here) {
  auto failure = failure_of(here, [&] { write_standard_output(verdict.output); });
  std::cerr << verdict.complaints << std::flush;
  return failure;
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
  std::cerr << "mnlaunch: note: " + connection.not_compared + "; the nodes were not compared" +
                   master_elsewhere(variables) + " (srun and Open MPI's mpiexec make that possible)\n";
}

void note_key(const Connection& connection, const Options& options) {
  if (!options.show || connection.here.rank != 0 || !connection.group.keys) return;
  std::cerr << "mnlaunch: note: the key by which the nodes know each other " + connection.group.keys->origin() + "\n";
}

/// The self test writes it when all is done: what is there must be a file, as devices and pipes would be replaced or
/// waited for. Throws UsageError.
void require_file(const std::string& option, const std::string& path) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (path.empty() || !std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
  throw UsageError(option + ": " + path + " is not a file");
}

void require_doctors_time(const Variables& variables) {
  constexpr const char* kName = "MN_DOCTOR_TIMEOUT";
  const int seconds = variables.number(kName).value_or(1);
  if (seconds < 1) throw UsageError(kName + (" is " + std::to_string(seconds)) + ": give seconds, at least 1");
}

/// The files of --doctor. Throws UsageError.
void require_files(const Options& options) {
  if (!options.doctor) return;
  require_file("--save", options.save);
  require_file("--history", options.history);
  try {
    if (!options.against.empty()) static_cast<void>(parse_json(read_file(options.against), options.against));
  } catch (const Error& error) {
    throw UsageError(std::string("--against: ") + error.what());
  }
}

/// What rank 0 tells the others of itself. Options that are wrong on one rank are the failure of all.
void describe_rank(Arrival& arrival, std::optional<Marker>& marker, const ThisRank& rank, bool is_whole) {
  for (const auto* error : {&rank.here.error, &rank.options.error}) {
    if (!error->empty()) throw UsageError(*error);
  }
  if (rank.options.doctor) require_doctors_time(rank.surroundings.variables);
  if (rank.here.rank != 0) return;
  require_files(rank.options);
  if (is_whole) arrival.master_port = free_port_of_job(rank.here.job, rank.options.ports, is_free_port);
  if (!rank.is_compared() || rank.here.inter_size == 1) return;
  marker.emplace(output_folder(rank.surroundings), host_name() + "-" + std::to_string(getpid()));
  arrival.marker = marker->name();
}

/// Collective: takes the rank's final numbers from the others, and their verdict.
Outcome exchange_facts(Exchange& exchange, ThisRank& rank, bool is_whole, Roster& roster) {
  std::optional<Marker> marker;  // until all nodes have looked for it
  try {
    roster = arrive(exchange, rank, is_whole, [&](Arrival& own) { describe_rank(own, marker, rank, is_whole); });
  } catch (const CutOff&) {
    // Nobody took what it wanted to tell.
    if (!rank.here.error.empty()) throw UsageError(rank.here.error);
    throw;
  }
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
  const auto unwritten = say(outcome.verdict, rank.here);
  const bool goes_on = outcome.verdict.exit_code == 0;
  if (unwritten && !(goes_on && rank.options.dry_run)) std::cerr << "mnlaunch: " + unwritten->text + "\n";
  if (!goes_on) return leave(exchange, outcome.verdict.exit_code, rank.here.rank);
  note_not_compared(connection, rank);
  note_key(connection, rank.options);
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
  Prepared prepared;
  if (const auto exit_code = agree_on_start(connection, rank, outcome, prepared)) return *exit_code;
  start(rank, outcome, prepared);
}

}  // namespace mn::launcher

#include "launch.hpp"

#include <chrono>
#include <iostream>
#include <thread>

#include <mn/core/environment.hpp>

#include "alone.hpp"
#include "compare.hpp"
#include "connect.hpp"
#include "facts/find_program.hpp"
#include "start.hpp"
#include "this_rank.hpp"

namespace mn::launcher {
namespace {

/// Finds the program; that there is none is a finding, which rank 0 reports for all.
void look_for_program(ThisRank& rank) {
  Surroundings& here = rank.surroundings;
  if (here.arguments.empty()) return;  // --dry-run needs none
  try {
    here.program = find_program(here.arguments[0], here.folder, executable_path().parent_path(),
                                here.variables.get("PATH").value_or(""));
  } catch (const ProgramError& failure) {
    here.program_error = failure.what();
    rank.program_exit = failure.exit_code();
  }
}

Surroundings look_around(const Options& options, const Variables& variables) {
  Surroundings surroundings;
  surroundings.variables = variables;
  surroundings.root = variables.get("MN_HARDWARE_ROOT").value_or("/");
  surroundings.check_files = options.check_files;
  surroundings.arguments = options.program;
  if (options.doctor && surroundings.arguments.empty()) surroundings.arguments = {path_of_self_test()};
  std::error_code error;
  surroundings.folder = std::filesystem::current_path(error);
  return surroundings;
}

/// At the first bad exit mpiexec kills the rest, so rank 0 goes first: its line must come out.
void let_rank_zero_go_first(int exit_code, int rank) {
  constexpr std::chrono::milliseconds kDelay{500};
  if (exit_code != 0 && rank != 0) std::this_thread::sleep_for(kDelay);
}

}  // namespace

int launch(const Options& options, Variables variables) {
  ThisRank rank{.options = options, .surroundings = look_around(options, variables), .program_exit = 0, .here = {}};
  look_for_program(rank);
  Connection connection = connect_to_launcher(rank.surroundings.variables);
  rank.here = connection.here;
  const bool exchanges = connection.session && rank.here.size > 1;
  const Outcome outcome = exchanges ? compare_nodes(*connection.session, rank) : check_alone(connection, rank);
  connection.session.reset();
  // Only after the exchange, so that no output is under way while mpiexec serves the ranks' PMIx calls.
  std::cout << outcome.verdict.output << std::flush;
  std::cerr << outcome.verdict.complaints << std::flush;
  if (outcome.exit_code != 0 || options.dry_run) {
    let_rank_zero_go_first(outcome.exit_code, rank.here.rank);
    return outcome.exit_code;
  }
  if (rank.surroundings.program.empty()) throw ProgramError(rank.surroundings.program_error, rank.program_exit);
  start(rank, outcome);
}

}  // namespace mn::launcher

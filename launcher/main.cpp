// The program mnlaunch. Starts the job's program (launch.hpp) or supervises steps (supervise/supervise.hpp).
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/inherited_signals.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/standard_output.hpp>

#include "batch/dry_run.hpp"
#include "cli/built_with.hpp"
#include "cli/options.hpp"
#include "exchange/group.hpp"
#include "launch.hpp"
#include "node/node_check.hpp"
#include "place/derive_rank.hpp"
#include "place/processes.hpp"
#include "place/variables.hpp"
#include "rounds/verdict.hpp"
#include "supervise/supervise.hpp"

namespace mn::launcher {
namespace {

int run(const Options& options) {
  if (const auto status = run_batch_check(options)) return *status;
  if (options.action == Action::kLaunch) return launch(options, Variables::of_this_process());
  if (options.action == Action::kNodeCheck) return run_node_check(options);
  write_standard_output(options.action == Action::kHelp ? help_text()
                                                        : "mnlaunch " MN_VERSION ", " + built_with() + "\n");
  return 0;
}

/// The process that started the ranks of this node, even if scripts have started mnlaunch. Equal for all ranks.
pid_t starter_of_job() {
  if (const pid_t launcher = process_of_launcher(); launcher > 0) return launcher;
  for (const auto& names : kLauncherVariables) {
    if (environment(names.rank)) return starter_of_ranks(names.rank);
  }
  return starter_of_ranks("SLURM_PROCID");
}

/// Whether this process prints `error`. If several processes of a node have a usage error, only the first prints.
bool is_first_to_say(const Error& error) {
  if (error.exit_code() != kExitUsage) return true;
  return claim_text(std::to_string(starter_of_job()) + error.what());
}

int fail_silently(const Error& error) {
  let_rank_zero_speak();
  return error.exit_code();
}

int fail(const Error& error, const std::string& who) {
  if (*error.what() == '\0') return fail_silently(error);
  std::cerr << "mnlaunch: " + who + error.what() + "\n";  // one write: several ranks may print at once
  std::this_thread::sleep_for(kUntilShown);
  return error.exit_code();
}

/// Returns the options. If they are wrong, returns the defaults with the error in Options::error, and with the time-out
/// and ports of the presets: the rank needs both to tell the error to ranks with right options.
Options options_of(int argc, char** argv) {
  constexpr const char* kNone[] = {"mnlaunch", "--dry-run"};
  Options options;
  try {
    return parse_options(argc, argv, presets_of_system());
  } catch (const Error& error) {
    options.error = error.what();
  }
  try {
    const auto set = parse_options(2, kNone, presets_of_system());
    options.timeout_s = set.timeout_s;
    options.ports = set.ports;
  } catch (const Error&) {
  }
  return options;
}

/// Reports an error of all ranks on rank 0, and on each rank without a number, because it may be rank 0.
int fail_by_rank_zero(const Error& error) {
  const auto text = rank_text_of_launcher(environment);
  return !text || parse_rank(*text).value_or(0) == 0 ? fail(error, "") : fail_silently(error);
}

int launch_and_report(const Options& options) {
  try {
    return run(options);
  } catch (const CheckFailed& error) {
    return fail(error, "");
  } catch (const NoLocalRanks& error) {
    return fail_by_rank_zero(error);
  } catch (const Error& error) {
    if (!is_first_to_say(error)) return fail_silently(error);
    const auto rank = rank_text_of_launcher(environment);
    return fail(error, rank ? "rank " + *rank + " on " + host_name() + ": " : "");
  }
}

/// Opens /dev/null for each closed standard stream; otherwise the next opened file would become the stream. In the
/// program the stream is closed again (O_CLOEXEC), and writing fails as before (O_RDONLY).
void fill_closed_streams() {
  int fd = -1;
  while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO) continue;
  if (fd >= 0) close(fd);
}

int run_supervise(const std::vector<std::string>& words) {
  try {
    if (!words.empty() && (words.front() == "--help" || words.front() == "-h")) {
      write_standard_output(supervise_help());
      return 0;
    }
    return supervise(parse_supervise(words));
  } catch (const Error& error) {
    return fail(error, "");
  }
}

}  // namespace
}  // namespace mn::launcher

int main(int argc, char** argv) {
  mn::reset_inherited_signals();
  mn::launcher::fill_closed_streams();
  try {
    if (argc > 1 && std::string(argv[1]) == "supervise") return mn::launcher::run_supervise({argv + 2, argv + argc});
    return mn::launcher::launch_and_report(mn::launcher::options_of(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "mnlaunch on " + mn::host_name() + ": " + error.what() + "\n";
    return 1;
  }
}

#include <charconv>
#include <iostream>
#include <string>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

#include "check_failed.hpp"
#include "launch.hpp"
#include "options.hpp"
#include "place/variables.hpp"

namespace {

int run(const mn::launcher::Options& options) {
  switch (options.action) {
    case mn::launcher::Action::kHelp:
      std::cout << mn::launcher::help_text();
      return 0;
    case mn::launcher::Action::kVersion:
      std::cout << "mnlaunch " MN_VERSION "\n";
      return 0;
    case mn::launcher::Action::kLaunch:
      break;
  }
  return mn::launcher::launch(options, mn::launcher::Variables::of_this_process());
}

/// This rank as its variables tell it, be they malformed; empty: they don't.
std::string rank_as_told() {
  for (const char* name : {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (auto rank = mn::environment(name)) return *rank;
  }
  return "";
}

/// Errors that all ranks make alike are rank 0's to report. Who has no sound rank may be it.
bool is_another_ranks_to_say() {
  const std::string text = rank_as_told();
  int rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  return error == std::errc() && end == text.data() + text.size() && rank > 0;
}

int fail(const mn::Error& error, const std::string& who) {
  if (*error.what() != '\0') std::cerr << "mnlaunch: " << who << error.what() << std::endl;  // no text: another says it
  return error.exit_code();
}

/// Only the command line is alike on all ranks: what a rank finds by itself, it says itself.
int launch_and_tell(const mn::launcher::Options& options) {
  try {
    return run(options);
  } catch (const mn::launcher::CheckError& error) {
    return error.on_all_ranks() && is_another_ranks_to_say() ? error.exit_code() : fail(error, "");
  } catch (const mn::Error& error) {
    const std::string rank = rank_as_told();
    return fail(error, rank.empty() ? "" : "rank " + rank + " on " + mn::host_name() + ": ");
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return launch_and_tell(mn::launcher::parse_options(argc, argv));
  } catch (const mn::UsageError& error) {
    return is_another_ranks_to_say() ? error.exit_code() : fail(error, "");
  } catch (const std::exception& error) {
    std::cerr << "mnlaunch on " << mn::host_name() << ": " << error.what() << std::endl;
    return 1;
  }
}

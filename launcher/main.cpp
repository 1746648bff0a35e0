#include <iostream>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

#include "launch.hpp"
#include "options.hpp"
#include "variables.hpp"

namespace {

int run(int argc, char** argv) {
  const auto options = mn::launcher::parse_options(argc, argv);
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

/// Errors that all ranks make alike are rank 0's to report; its variables tell, even where they are malformed.
bool is_silent_rank() {
  for (const char* name : {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const auto rank = mn::environment(name)) return *rank != "0";
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const mn::Error& error) {
    // No text: another rank says it.
    const bool silent = *error.what() == '\0' || (error.on_all_ranks() && is_silent_rank());
    if (!silent) std::cerr << "mnlaunch: " << error.what() << std::endl;
    return error.exit_code();
  } catch (const std::exception& error) {
    std::cerr << "mnlaunch on " << mn::host_name() << ": " << error.what() << std::endl;
    return 1;
  }
}

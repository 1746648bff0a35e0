// mnshard: makes, describes and checks shards.
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/ranks.hpp>
#include <mn/data/hdf5.hpp>
#include <mn/data/shard_format.hpp>

#include "data/command_table.hpp"

namespace mn::data {
namespace {

/// Every option takes a value, so what follows one without "=" belongs to it; the rest are the arguments.
std::vector<std::string> take_arguments(int argc, char** argv, std::vector<const char*>& options) {
  std::vector<std::string> arguments;
  for (int i = 0; i < argc; ++i) {
    if (std::strncmp(argv[i], "--", 2) != 0 && i > 0) {
      arguments.emplace_back(argv[i]);
      continue;
    }
    options.push_back(argv[i]);
    const bool bare = std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "--version") == 0;
    if (i > 0 && !bare && std::strchr(argv[i], '=') == nullptr && i + 1 < argc) options.push_back(argv[++i]);
  }
  return arguments;
}

void print_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  std::cout << "mnshard " MN_VERSION ", shard format " << kShardVersion << ", HDF5 " << major << '.' << minor << '.'
            << release << " (compiled with " << H5_VERS_MAJOR << '.' << H5_VERS_MINOR << '.' << H5_VERS_RELEASE
            << ")\n";
}

int run(int argc, char** argv) {
  Settings settings;
  std::vector<const char*> given;
  const auto arguments = take_arguments(argc, argv, given);
  const Command* known = arguments.empty() ? nullptr : find_command(arguments[0]);
  if (known != nullptr) check_options_of(*known, given);
  Options options = options_for(known, settings);
  const auto action = options.parse(static_cast<int>(given.size()), given.data());
  if (action == Options::Action::kVersion) return print_version(), 0;
  if (action == Options::Action::kHelp) return std::cout << options.help(), 0;
  if (arguments.empty()) throw UsageError("a command is missing; see mnshard --help");
  const Command& command = checked_command(arguments[0], arguments.size() - 1);
  return command.run(Arguments(arguments).subspan(1), settings);
}

}  // namespace
}  // namespace mn::data

int main(int argc, char** argv) {
  const mn::JobRank me = mn::job_rank_of_environment(mn::environment);
  const auto report = [&](const char* what) {
    std::cerr << "mnshard: " << (me.size > 1 ? "rank " + std::to_string(me.rank) + ": " : "") << what << "\n";
  };
  try {
    return mn::data::run(argc, argv);
  } catch (const mn::Error& error) {
    if (me.rank == 0 || !error.on_all_ranks()) {
      report(error.what());
    } else {
      mn::let_rank_zero_speak();
    }
    return error.exit_code();
  } catch (const std::exception& error) {
    report(error.what());
    return 1;
  }
}

// mnshard: makes, describes and checks shards.
#include <iostream>

#include <mn/core/error.hpp>
#include <mn/core/tool.hpp>
#include <mn/data/hdf5.hpp>
#include <mn/data/shard_format.hpp>

#include "data/commands.hpp"

namespace mn::data {
namespace {

void print_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  std::cout << "mnshard " MN_VERSION ", shard format " << kShardVersion << ", HDF5 " << major << '.' << minor << '.'
            << release << " (compiled with " << H5_VERS_MAJOR << '.' << H5_VERS_MINOR << '.' << H5_VERS_RELEASE
            << ")\n";
}

int run(int argc, char** argv) {
  Settings settings;
  std::vector<std::string> arguments;
  const auto action = options_for(nullptr, settings).parse(argc, argv, &arguments);
  if (action == Options::Action::kVersion) return print_version(), 0;
  const Command* known = arguments.empty() ? nullptr : find_command(arguments[0]);
  if (action == Options::Action::kHelp) return std::cout << options_for(known, settings).help(), 0;
  if (arguments.empty()) throw UsageError("a command is missing; see mnshard --help");
  const Command& command = checked_command(arguments[0], arguments.size() - 1);
  check_options_of(command, std::span(argv, static_cast<std::size_t>(argc)));
  return command.run(Arguments(arguments).subspan(1), settings);
}

}  // namespace
}  // namespace mn::data

int main(int argc, char** argv) {
  return mn::run_tool("mnshard", [&] { return mn::data::run(argc, argv); });
}

// mncheck: looks at checkpoints.
#include <iostream>
#include <string>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/tool.hpp>

#include "data/mncheck/commands.hpp"

namespace mn::check {
namespace {

int run_command(const std::vector<std::string>& words, const Settings& settings) {
  const std::string command = words.empty() ? "" : words.front();
  const std::size_t arguments = words.size() - 1;
  if (command == "list" && arguments == 1) return list(words[1]);
  if (command == "verify" && arguments == 1) return verify(words[1]);
  if (command == "prune" && arguments == 1) return prune(words[1], settings);
  if (command == "merge" && arguments == 1) return merge(words[1], settings);
  if (command == "diff" && arguments == 2) return diff(words[1], words[2]);
  throw UsageError("give list DIR, verify DIR, diff A B, prune OUT or merge DIR; see mncheck --help");
}

int run(int argc, char** argv) {
  Settings settings;
  Options options = make_options(settings);
  const auto [words, given] = split_command_line(argc, argv, {"--all"});
  const auto action = options.parse(static_cast<int>(given.size()), given.data());
  if (action == Options::Action::kVersion) return std::cout << "mncheck " MN_VERSION "\n", 0;
  if (action == Options::Action::kHelp) return std::cout << options.help(), 0;
  return run_command(words, settings);
}

}  // namespace
}  // namespace mn::check

int main(int argc, char** argv) {
  return mn::run_tool("mncheck", [&] { return mn::check::run(argc, argv); });
}

// mncheck: looks at checkpoints.
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include <mn/core/error.hpp>

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
  std::vector<const char*> given = {argv[0]};
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--", 2) != 0) {
      words.emplace_back(argv[i]);
      continue;
    }
    given.push_back(argv[i]);
    const bool takes_next = std::strcmp(argv[i], "--output") == 0 || std::strcmp(argv[i], "--keep") == 0 ||
                            std::strcmp(argv[i], "--config") == 0;
    if (takes_next && i + 1 < argc) given.push_back(argv[++i]);
  }
  const auto action = options.parse(static_cast<int>(given.size()), given.data());
  if (action == Options::Action::kVersion) return std::cout << "mncheck " MN_VERSION "\n", 0;
  if (action == Options::Action::kHelp) return std::cout << options.help(), 0;
  return run_command(words, settings);
}

}  // namespace
}  // namespace mn::check

int main(int argc, char** argv) {
  try {
    return mn::check::run(argc, argv);
  } catch (const mn::Error& error) {
    std::cerr << "mncheck: " << error.what() << "\n";
    return error.exit_code();
  } catch (const std::exception& error) {
    std::cerr << "mncheck: " << error.what() << "\n";
    return 1;
  }
}

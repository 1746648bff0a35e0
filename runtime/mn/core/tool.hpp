/// What the main() of every command line tool does: mnshard, mncheck, mnreport.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mn {

struct CommandLine {
  std::vector<std::string> words;    ///< what is neither an option nor an option's value
  std::vector<const char*> options;  ///< the program's name and the rest, as Options::parse() takes them
};

/// Every option takes a value, so what follows one without "=" belongs to it; but for --help, --version and `flags`
/// ("--all").
[[nodiscard]] CommandLine split_command_line(int argc, const char* const* argv,
                                             const std::vector<std::string_view>& flags = {});

/// The exit status of `run`, or of the error that it throws, which is printed as a line that begins with `name`. Of an
/// error that all ranks of a job have, rank 0 prints it.
[[nodiscard]] int run_tool(std::string_view name, const std::function<int()>& run);

}  // namespace mn

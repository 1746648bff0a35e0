/// Functions from which mnshard, mncheck and mnreport build their main().
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mn {

struct CommandLine {
  std::vector<std::string> words;    ///< words that are neither options nor options' values
  std::vector<const char*> options;  ///< the program's name and the options with values, for Options::parse()
};

/// Separates the words of the command line from its options. The options --help, --version and those listed in `flags`
/// ("--all") have no value. Every other option has a value, attached by "=" or as the next word.
[[nodiscard]] CommandLine split_command_line(int argc, const char* const* argv,
                                             const std::vector<std::string_view>& flags = {});

/// Calls `run` and returns its exit status. If `run` throws, prints the error as a line that begins with `name` and
/// returns the error's exit status. If all ranks have the error, only rank 0 prints it.
[[nodiscard]] int run_tool(std::string_view name, const std::function<int()>& run);

}  // namespace mn

/// The main() of mnshard, mncheck and mnreport.
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

/// Splits words from options. Every option takes a value, attached by "=" or as the next word, except --help, --version
/// and `flags` ("--all").
[[nodiscard]] CommandLine split_command_line(int argc, const char* const* argv,
                                             const std::vector<std::string_view>& flags = {});

/// The exit status of `run`, or of its error, printed as a line that begins with `name`, on rank 0 only if all ranks
/// have it.
[[nodiscard]] int run_tool(std::string_view name, const std::function<int()>& run);

}  // namespace mn

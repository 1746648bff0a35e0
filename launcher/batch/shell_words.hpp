/// Splits a shell script into simple commands without running it. Variables are replaced by values that the script
/// itself assigns, and else by this process's. What only a run could tell, such as $(command), becomes kUnknown.
///
/// Covers quotes, comments, continued lines, here-documents, redirections, and ${NAME:-DEFAULT}. Control structures are
/// not followed: the commands of all branches and functions are listed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "batch/shell_command.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

struct ShellScript {
  std::vector<ShellCommand> commands;
  std::vector<int> comment_lines;  ///< numbers of the lines that have only a comment
  bool has_open_quote = false;
};

/// `arguments` are the script's ($1, $2, ...).
[[nodiscard]] ShellScript read_shell_script(const std::string& text, const std::vector<std::string>& arguments,
                                            const Variables& variables);

/// The words behind #SBATCH: sbatch knows quotes and comments, but neither variables nor operators. No value if a quote
/// is open.
[[nodiscard]] std::optional<std::vector<std::string>> option_words(const std::string& line);

}  // namespace mn::launcher

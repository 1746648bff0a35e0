/// Splits a shell script into simple commands without running it. Variables are replaced by values that the script
/// itself assigns, and else by this process's. What only a run could tell, such as $(command), becomes kUnknown.
///
/// Covers quotes, comments, continued lines, here-documents, redirections, and ${NAME:-DEFAULT}. Control structures are
/// not followed: the commands of all branches and functions are listed.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "place/variables.hpp"

namespace mn::launcher {

/// Stands in a word for a text that is not known.
inline constexpr char kUnknown = '\x01';

[[nodiscard]] inline bool is_known(const std::string& word) { return word.find(kUnknown) == std::string::npos; }

[[nodiscard]] inline bool is_one_of(const std::string& word, std::initializer_list<const char*> list) {
  return std::ranges::find(list, word) != list.end();
}

[[nodiscard]] inline std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
[[nodiscard]] inline bool has_slash(const std::string& name) { return name.find('/') != std::string::npos; }

struct ShellCommand {
  int line = 0;  ///< number of the line on which the command begins
  std::vector<std::string> words;
  std::vector<std::string> files;  ///< of redirections
  Variables variables;             ///< the variables when the command starts
};

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

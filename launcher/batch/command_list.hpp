/// Collects the simple commands of a shell script and follows its variables. A value that depends on whether or how
/// often a command runs is not known: behind && and |, and in if, case, loops, functions and subshells.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "batch/shell_command.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

class CommandList {
 public:
  explicit CommandList(Variables variables) : variables_(std::move(variables)) {}

  /// `command.words` may begin with keywords and assignments. `depends`: it follows &&, || or |.
  void add(ShellCommand command, bool depends);
  /// From now on, commands of this name are not known.
  void add_function(const std::string& name) { functions_.push_back(name); }
  void open_subshell() { ++depth_; }
  void close_subshell() { --depth_; }
  /// `words` are a pattern of case, no command, and neither are the last `piped` commands.
  void drop_pattern(const std::vector<std::string>& words, int piped);
  /// The values of these variables are not known from now on.
  void forget(const std::vector<std::string>& names);

  [[nodiscard]] const Variables& variables() const noexcept { return variables_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(commands_.size()); }
  [[nodiscard]] std::vector<ShellCommand> take() { return std::move(commands_); }

 private:
  void take_keywords(std::vector<std::string>& words);

  Variables variables_;
  int depth_ = 0;  // open if, while, for, case, { and (
  std::vector<std::string> functions_;
  std::vector<ShellCommand> commands_;
};

/// NAME of NAME=VALUE, NAME+=VALUE and NAME[INDEX]=VALUE; empty for other words.
[[nodiscard]] std::string assigned_name(const std::string& word);

/// All names in a text, such as one of arithmetic.
[[nodiscard]] std::vector<std::string> names_in(const std::string& text);

}  // namespace mn::launcher

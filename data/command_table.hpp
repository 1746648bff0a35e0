/// The commands of mnshard and their options: one table behind the parser, --help and mnshard(1).
#pragma once

#include <string>
#include <vector>

#include <mn/core/options.hpp>

#include "data/commands.hpp"

namespace mn::data {

/// One way to call a command.
struct CommandForm {
  const char* arguments;
  const char* purpose;
};

struct Command {
  const char* name;
  std::vector<CommandForm> forms;
  std::size_t least;  ///< arguments
  std::size_t most;
  int (*run)(Arguments, const Settings&);
};

/// Null if there is no such command.
[[nodiscard]] const Command* find_command(const std::string& name);

/// Throws UsageError that lists all commands, or the forms of the command.
[[nodiscard]] const Command& checked_command(const std::string& name, std::size_t arguments);

/// Throws UsageError if `words` has an option of other commands only.
void check_options_of(const Command& command, const std::vector<const char*>& words);

/// The options of a command, or of all commands if null.
[[nodiscard]] Options options_for(const Command* command, Settings& settings);

/// mnshard(1).
[[nodiscard]] std::string manual_page();

}  // namespace mn::data

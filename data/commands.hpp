/// The commands of mnshard and their options. The parser, --help and mnshard(1) use the same table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <mn/core/cpus.hpp>
#include <mn/core/options.hpp>

#include "data/convert.hpp"

namespace mn::data {

struct Settings {
  std::string out;
  std::string split = "train";
  std::int64_t shard_mb = 256;
  std::string classes;
  std::string columns;
  std::int64_t resize = 0;
  std::string x = "x";
  std::string y = "y";
  std::vector<std::string> fields;
  std::vector<std::string> class_fields;
  std::string unwritten = "fail";
  TokenOptions tokens;
  std::string encoding = "utf-8";
  /// Each thread holds a shard in memory.
  std::int64_t threads = std::min<std::int64_t>(static_cast<std::int64_t>(cpu_count()), 16);
  std::int64_t seed = 0;
  bool shuffle = true;
  std::string on_error = "fail";
  std::string check = "decode";
  std::string image_member;
  std::string label_member = "cls";
};

/// The arguments after the command's name.
using Arguments = std::span<const std::string>;

struct CommandForm {
  const char* arguments;
  const char* purpose;
};

struct Command {
  const char* name;
  std::size_t least;                       ///< fewest arguments
  std::size_t most;                        ///< most arguments
  int (*run)(Arguments, const Settings&);  ///< returns the exit status; throws UsageError or DataError
  std::vector<CommandForm> forms;
};

/// In the order of --help.
[[nodiscard]] const std::vector<Command>& all_commands();

[[nodiscard]] const Command* find_command(const std::string& name);

/// Throws a UsageError that lists all commands if `name` is not a command, or that lists the command's forms if it does
/// not take this number of arguments.
[[nodiscard]] const Command& checked_command(const std::string& name, std::size_t arguments);

/// Checks the options among `words`, the words of the command line. Throws UsageError for an option that `command`
/// lacks.
void check_options_of(const Command& command, std::span<const char* const> words);

/// The options of `command` (null: of all commands). Parsing writes into `settings`.
[[nodiscard]] Options options_for(const Command* command, Settings& settings);

[[nodiscard]] std::string manual_page();

}  // namespace mn::data

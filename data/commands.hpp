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
  /// Number of threads. Each thread holds a shard in memory.
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

/// Each run_ function runs the command of its name and returns the exit status. Throws UsageError or DataError.
int run_idx(Arguments arguments, const Settings& settings);
int run_images(Arguments arguments, const Settings& settings);
int run_cifar(Arguments arguments, const Settings& settings);
int run_tar(Arguments arguments, const Settings& settings);
int run_npy(Arguments arguments, const Settings& settings);
int run_npz(Arguments arguments, const Settings& settings);
int run_tokens(Arguments arguments, const Settings& settings);
int run_index(Arguments arguments, const Settings& settings);
int run_info(Arguments arguments, const Settings& settings);
int run_verify(Arguments arguments, const Settings& settings);
int run_extract(Arguments arguments, const Settings& settings);

/// Runs `mnshard info` for a folder with a manifest of indexed HDF5 files. Returns the exit status.
int info_index(const std::filesystem::path& folder);

struct CommandForm {
  const char* arguments;
  const char* purpose;
};

struct Command {
  const char* name;
  std::size_t least;  ///< fewest arguments
  std::size_t most;   ///< most arguments
  int (*run)(Arguments, const Settings&);
  std::vector<CommandForm> forms;
};

/// Null if there is no such command.
[[nodiscard]] const Command* find_command(const std::string& name);

/// The command `name`. If there is no such command, throws a UsageError that lists all commands. If the command does
/// not take this number of arguments, throws a UsageError that lists the command's forms.
[[nodiscard]] const Command& checked_command(const std::string& name, std::size_t arguments);

/// Checks the options among `words`, the words of the command line. Throws UsageError for an option that only commands
/// other than `command` have.
void check_options_of(const Command& command, std::span<const char* const> words);

/// The options of `command`, or of all commands if `command` is null. Parsing writes into `settings`.
[[nodiscard]] Options options_for(const Command* command, Settings& settings);

[[nodiscard]] std::string manual_page();

}  // namespace mn::data

/// mnlaunch's command line. The table option_table.cpp defines the parser, --help and the manual page.
///
/// To add an option, add a member to Options, a row to option_table.cpp, and a line to docs/launcher.md.
#pragma once

#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/net/port_range.hpp>

#include "bind/cpu_set.hpp"

namespace mn::launcher {

enum class CheckLevel { kOff, kWarn, kStrict };
enum class Action { kLaunch, kHelp, kVersion, kNodeCheck };

struct Options {
  std::string error;  ///< why the options are wrong; empty if they are right
  Action action = Action::kLaunch;
  CheckLevel check = CheckLevel::kWarn;
  std::vector<std::string> skip;  ///< checks to leave out
  std::vector<std::string> warn;  ///< checks whose errors are warnings
  std::vector<std::filesystem::path> check_files;
  bool doctor = false;
  std::string save;     ///< file for the report of --doctor; empty: none
  std::string against;  ///< earlier report to compare with; empty: none
  std::string history;  ///< file with a line for each host and run of --doctor; empty: none
  int timeout_s = 60;   ///< seconds to wait for other ranks
  /// TCP ports of mnlaunch's listeners and for MASTER_PORT.
  std::vector<PortRange> ports{std::begin(kDefaultPorts), std::end(kDefaultPorts)};
  bool bind = true;
  std::vector<CpuSet> cpu_map;  ///< element i: CPUs of each node's rank i; empty: mnlaunch decides
  bool bind_memory = false;
  bool bind_threads = false;
  bool bind_nic = false;
  bool one_gpu_visible = false;
  bool oversubscribe_gpu = false;
  std::string output;  ///< folder, or pattern of file names; empty: the launcher's own streams
  bool append = false;
  bool label = false;
  bool show = false;
  bool dry_run = false;
  bool json = false;
  std::vector<std::string> program;  ///< PROGRAM and its arguments; may be empty with --help, --version or --doctor
  std::string expect;                ///< file with the site's values for --node-check; empty: none
};

using Words = std::vector<std::string>;

struct OptionRow {
  const char* name;
  const char* value;    ///< placeholder or choices of the value; empty for a flag
  const char* summary;  ///< one line for --help
  const char* details;  ///< text for the manual page
  /// Sets members of `options` from all values of this option (for a flag, empty texts). Throws UsageError.
  void (*apply)(Options& options, const OptionRow& row, const Words& values);

  [[nodiscard]] bool is_flag() const noexcept { return *value == '\0'; }
};

[[nodiscard]] std::span<const OptionRow> option_table();

/// Null if mnlaunch has no option --NAME.
[[nodiscard]] const OptionRow* find_option(std::string_view name);

/// Options from a file or an environment variable. The text has words as on the command line, separated by blanks or
/// line ends; a # begins a comment. The command line overrides presets.
struct Preset {
  std::string name;  ///< file or variable, for messages
  std::string text;
};

/// Parses the presets, then the command line; later values override earlier ones. Throws a UsageError that names the
/// wrong word and, for an unknown check, lists the known checks.
[[nodiscard]] Options parse_options(int argc, const char* const* argv, const std::vector<Preset>& presets = {});

/// The options that must be equal on all ranks of a job, as words, without those with default values.
[[nodiscard]] std::vector<std::string> words_of_all_ranks(const Options& options);

/// In this order: the site's /etc/mn/mnlaunch.conf, MN_LAUNCH_TIMEOUT, MNLAUNCH_OPTIONS.
[[nodiscard]] std::vector<Preset> presets_of_system();

/// The text of --help, which fits a screen of 80 columns and 34 lines.
[[nodiscard]] std::string help_text();

[[nodiscard]] std::string manual_page();

}  // namespace mn::launcher

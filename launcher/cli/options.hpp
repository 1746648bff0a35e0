/// mnlaunch's command line. One table of options makes the parser, --help and the manual page.
#pragma once

#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include <mn/core/net/port_range.hpp>

#include "bind/cpu_set.hpp"

namespace mn::launcher {

enum class CheckLevel { kOff, kWarn, kStrict };
enum class Action { kLaunch, kHelp, kVersion };

struct Options {
  std::string error;  ///< what is wrong with the options: then they hold nothing else
  Action action = Action::kLaunch;
  CheckLevel check = CheckLevel::kWarn;
  std::vector<std::string> skip;  ///< names of checks that are left out
  std::vector<std::string> warn;  ///< names of checks whose errors are warnings
  std::vector<std::filesystem::path> check_files;
  bool doctor = false;
  std::string save;     ///< file for the report of --doctor; empty: none
  std::string against;  ///< an earlier report; empty: none
  std::string history;  ///< file with a line for each host and run of --doctor; empty: none
  int timeout_s = 60;   ///< patience with other ranks
  /// Where the launchers and rank 0's MASTER_PORT listen.
  std::vector<PortRange> ports{std::begin(kDefaultPorts), std::end(kDefaultPorts)};
  bool bind = true;
  std::vector<CpuSet> cpu_map;  ///< CPUs of each node's first rank, second, …; empty: mnlaunch decides
  bool bind_memory = false;
  bool bind_threads = false;
  bool bind_nic = false;
  bool one_gpu_visible = false;
  bool oversubscribe_gpu = false;
  std::string output;  ///< a folder, or a pattern of file names; empty: the launcher's own streams
  bool append = false;
  bool label = false;
  bool show = false;
  bool dry_run = false;
  bool json = false;
  std::vector<std::string> program;  ///< PROGRAM and its arguments; empty only with --help, --version or --doctor
};

/// Options from outside of the command line, which count for less: words as on the command line, with blanks or line
/// ends between them. A # begins a comment.
struct Preset {
  std::string name;  ///< for people: a file, a variable
  std::string text;
};

/// `presets` count in their order, each for more than those before it. Throws UsageError that names what is wrong and,
/// for an unknown option or check, the known ones.
[[nodiscard]] Options parse_options(int argc, const char* const* argv, const std::vector<Preset>& presets = {});

/// The options that all ranks of a job must have alike, as words; those that are as usual are left out.
[[nodiscard]] std::vector<std::string> words_of_all_ranks(const Options& options);

/// The file of the site, /etc/mn/mnlaunch.conf, and the variables MN_LAUNCH_TIMEOUT and MNLAUNCH_OPTIONS.
[[nodiscard]] std::vector<Preset> presets_of_system();

/// Fits a screen of 80 columns and 34 lines.
[[nodiscard]] std::string help_text();

/// The same as a manual page, mnlaunch(1), in man(7) macros.
[[nodiscard]] std::string manual_page();

}  // namespace mn::launcher

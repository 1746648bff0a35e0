/// mnlaunch's command line. One table of options makes the parser, --help and the manual page.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mn::launcher {

enum class CheckLevel { kOff, kWarn, kStrict };
enum class Action { kLaunch, kHelp, kVersion };

struct Options {
  Action action = Action::kLaunch;
  CheckLevel check = CheckLevel::kWarn;
  std::vector<std::filesystem::path> check_files;
  bool doctor = false;
  bool bind = true;
  bool one_gpu_visible = false;
  bool oversubscribe_gpu = false;
  std::filesystem::path output;  ///< empty: the launcher's own streams
  bool show = false;
  bool dry_run = false;
  bool json = false;
  std::vector<std::string> program;  ///< PROGRAM and its arguments; empty only with --help, --version or --doctor
};

/// Throws UsageError that names what is wrong and, for an unknown option, the nearest known one.
[[nodiscard]] Options parse_options(int argc, const char* const* argv);

/// Fits a screen of 80 columns and 24 lines.
[[nodiscard]] std::string help_text();

/// The same as a manual page, mnlaunch(1), in man(7) macros.
[[nodiscard]] std::string manual_page();

}  // namespace mn::launcher

/// mnlaunch's command line. The table of options (option_table.cpp) makes the parser, --help and the manual page.
#pragma once

#include <string>
#include <vector>

#include "cli/option_table.hpp"

namespace mn::launcher {

/// Options from a file or a variable: words as on the command line, with blanks or line ends between them. A # begins a
/// comment. The command line overrides them.
struct Preset {
  std::string name;  ///< the file or variable, for messages
  std::string text;
};

/// Each preset overrides the presets before it. Throws UsageError that names the wrong word and, for an unknown option
/// or check, the known names.
[[nodiscard]] Options parse_options(int argc, const char* const* argv, const std::vector<Preset>& presets = {});

/// Options that must be equal on all ranks of a job, as words; options with their default value are left out.
[[nodiscard]] std::vector<std::string> words_of_all_ranks(const Options& options);

/// The presets of this system: the site's /etc/mn/mnlaunch.conf, then MN_LAUNCH_TIMEOUT and MNLAUNCH_OPTIONS.
[[nodiscard]] std::vector<Preset> presets_of_system();

/// Fits a screen of 80 columns and 34 lines.
[[nodiscard]] std::string help_text();

/// mnlaunch(1), the manual page, in man(7) macros.
[[nodiscard]] std::string manual_page();

}  // namespace mn::launcher

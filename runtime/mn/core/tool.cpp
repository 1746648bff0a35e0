#include <mn/core/tool.hpp>

#include <algorithm>
#include <iostream>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/inherited_signals.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/text.hpp>

namespace mn {

CommandLine split_command_line(int argc, const char* const* argv, const std::vector<std::string_view>& flags) {
  CommandLine line{.words = {}, .options = {argv[0]}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--")) {
      line.words.emplace_back(word);
      continue;
    }
    line.options.push_back(argv[i]);
    const bool is_alone = word == "--help" || word == "--version" || word.find('=') != std::string_view::npos ||
                          std::ranges::find(flags, word) != flags.end();
    if (!is_alone && i + 1 < argc) line.options.push_back(argv[++i]);
  }
  return line;
}

int run_tool(std::string_view name, const std::function<int()>& run) {
  reset_inherited_signals();
  const JobRank me = job_rank_of_environment(environment);
  const auto report = [&](const char* what) {
    const std::string who = me.size > 1 ? "rank " + std::to_string(me.rank) + ": " : "";
    std::cerr << std::string(name) + ": " + who + one_line(what) + "\n";  // a single write: lines of ranks do not mix
  };
  try {
    return run();
  } catch (const Error& error) {
    if (me.rank == 0 || !error.on_all_ranks()) {
      report(error.what());
    } else {
      let_rank_zero_speak();
    }
    return error.exit_code();
  } catch (const std::exception& error) {
    report(error.what());
    return 1;
  }
}

}  // namespace mn

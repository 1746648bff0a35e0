#include <mn/core/tool.hpp>

#include <iostream>
#include <string>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/inherited_signals.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/text.hpp>

namespace mn {

int run_tool(std::string_view name, const std::function<int()>& run) {
  reset_inherited_signals();
  const JobRank me = job_rank_of_environment(environment);
  const auto report = [&](const char* what) {
    const std::string who = me.size > 1 ? "rank " + std::to_string(me.rank) + ": " : "";
    std::cerr << std::string(name) + ": " + who + one_line(what) + "\n";  // one write: lines of ranks do not mix
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

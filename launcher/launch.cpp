#include "launch.hpp"

#include <iostream>
#include <optional>

#include <sys/stat.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

#include "cpu_set.hpp"
#include "exports.hpp"
#include "network.hpp"
#include "placement.hpp"
#include "pmix_session.hpp"
#include "program.hpp"
#include "report.hpp"

namespace mn::launcher {
namespace {

bool is_socket(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

std::vector<Row> rows_of(const Placement& here) {
  std::vector<Row> rows;
  const Layout layout = here.layout.value_or(Layout{{here.inter_rank}, {host_name()}});
  std::vector<int> used(layout.hosts.size(), 0);
  for (int rank = 0; rank < layout.size(); ++rank) {
    const int node = layout.node_of(rank);
    rows.push_back({.rank = rank,
                    .host = layout.host_of(rank),
                    .intra_rank = used[static_cast<std::size_t>(node)]++,
                    .inter_rank = node,
                    .device = "cpu",
                    .cores = rank == here.rank ? format_cpus(affinity_of_this_thread()) : "",
                    .nic = "",
                    .source = here.source});
  }
  return rows;
}

}  // namespace

int launch(const Options& options, Variables variables) {
  const auto program = find_program(options.program.at(0), std::filesystem::current_path(),
                                    executable_path().parent_path(), variables.get("PATH").value_or(""));
  std::optional<PmixSession> session;
  Launcher launcher = innermost_launcher(variables, is_socket);
  if (launcher == Launcher::kPmix) {
    session.emplace(std::vector<std::filesystem::path>{"libpmix.so.2"});
    variables.set("PMIX_MCA_gds", "hash");
  }
  Placement here = place(variables, launcher, session ? std::optional(session->job()) : std::nullopt);
  Master master{"127.0.0.1", port_of_job(here.job)};
  if (here.inter_size > 1 && here.layout) master.address = here.layout->hosts.front();
  session.reset();
  if (options.show && here.rank == 0) std::cout << table(rows_of(here)) << std::flush;
  if (options.dry_run) return 0;
  const int cores = static_cast<int>(affinity_of_this_thread().size());
  add_exports(variables, here, master, "cpu", std::max(1, cores / here.intra_size));
  if (!options.output.empty()) redirect_output(options.output, here.rank);
  become(program, options.program, variables);
}

}  // namespace mn::launcher

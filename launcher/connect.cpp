#include "connect.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <sys/stat.h>

#include "facts/find_files.hpp"
#include "place/launchers.hpp"
#include "place/pmi.hpp"
#include "place/pmix.hpp"
#include "place/pmix_library.hpp"
#include "rounds/rendezvous.hpp"

namespace mn::launcher {
namespace {

using Milliseconds = std::chrono::milliseconds;

bool is_socket(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

/// A launcher's server that was asked about the job.
struct JobServer {
  std::unique_ptr<Board> board;  ///< null: no server was asked, or it does not answer
  std::optional<ServerJob> job;  ///< no value where `board` is null
  std::string why_silent;        ///< why a PMIx server does not answer; else empty
};

JobServer ask_pmix_server(const Variables& variables, const std::filesystem::path& program, Milliseconds patience) {
  const auto folders = folders_of_mpi(program, variables.get("LD_LIBRARY_PATH").value_or(""));
  try {
    auto session = std::make_unique<PmixSession>(pmix_libraries(variables, folders), patience);
    ServerJob job = session->job();
    return {std::move(session), std::move(job), ""};
  } catch (const PmixError& error) {
    return {nullptr, std::nullopt, error.what()};
  }
}

JobServer ask_pmi_server(const Variables& variables, Milliseconds patience) {
  const int rank = variables.needed("PMI_RANK", "a PMI server");
  const int size = variables.needed("PMI_SIZE", "a PMI server");
  auto session = std::make_unique<PmiSession>(variables.needed("PMI_FD", "a PMI server"), patience);
  auto job = session->read_job(rank, size);
  if (!job) return {};  // the server does not speak PMI-1: its variables must do
  return {std::move(session), std::move(job), ""};
}

JobServer ask_server(const LauncherRow& launcher, const Signs& signs, const std::filesystem::path& program,
                     Milliseconds patience) {
  if (!launcher.needs_server(signs)) return {};
  return launcher.launcher == Launcher::kPmix ? ask_pmix_server(signs.variables, program, patience)
                                              : ask_pmi_server(signs.variables, patience);
}

/// The launcher that places the rank if the PMIx server is silent. Throws PmixError if there is none.
const LauncherRow& launcher_beside_pmix(const Signs& signs, const std::string& why_silent) {
  const LauncherRow& other = launcher_without_server(signs);
  if (other.launcher != Launcher::kNone) return other;
  throw PmixError(why_silent +
                  "; unset the PMIX_* variables of a launcher that has ended, or start mnlaunch directly under one "
                  "that lives");
}

}  // namespace

Connection connect_to_launcher(Variables& variables, const std::filesystem::path& program, const Options& options) {
  reject_torchrun(variables);
  const Signs signs = read_signs(variables, is_socket);
  const LauncherRow& innermost = innermost_launcher(signs);
  if (innermost.launcher == Launcher::kNone) reject_one_of_many(variables);

  const JobServer server = ask_server(innermost, signs, program, std::chrono::seconds(options.timeout_s));
  const LauncherRow& launcher = server.why_silent.empty() ? innermost : launcher_beside_pmix(signs, server.why_silent);

  Connection connection;
  Placement& here = connection.here = find_placement(launcher, signs, server.job);
  Group& group = connection.group = group_of(here, variables, options);
  const bool has_other_nodes = here.inter_size != 1;
  if (server.job) {
    if (has_other_nodes) meet_on_board(group, here, *server.job, *server.board);
    // The program is this rank's second client, and the store is mapped while the session lives. The store "hash"
    // serves every client, but if mpiexec's own node has no ranks it names a wrong node.
    if (launcher.launcher == Launcher::kPmix && !free_locks_of_store()) variables.set("PMIX_MCA_gds", "hash");
  } else {
    name_job_by_variables(group, here, variables);
    if (has_other_nodes) connection.not_compared = meet_by_variables(group, here, variables, server.why_silent);
  }
  lead_if_nobody_does(group, here);
  return connection;
}

}  // namespace mn::launcher

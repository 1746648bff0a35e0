#include "connect.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

#include <sys/stat.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

#include "facts/find_library.hpp"
#include "place/launchers.hpp"
#include "place/layout.hpp"
#include "place/no_launcher.hpp"
#include "place/pmi.hpp"
#include "place/pmix.hpp"
#include "place/pmix_launcher.hpp"
#include "place/pmix_library.hpp"
#include "place/pmix_store.hpp"
#include "place/processes.hpp"
#include "rounds/absence.hpp"
#include "rounds/rendezvous.hpp"
#include "rounds/verdict.hpp"

namespace mn::launcher {
namespace {

bool is_socket(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

/// Whether a variable names what the launcher started. A batch job may start several beside each other.
bool is_named(const Variables& variables, const LauncherVariables& names) {
  return variables.has(names.job) && names.job != std::string_view("LSB_JOBID");
}

/// Variables may not name the job; the process that started the ranks of this node does, on this node.
std::string name_of_starter(const Placement& here, const Variables& variables) {
  const auto* names = std::ranges::find(kLauncherVariables, here.source, &LauncherVariables::launcher);
  if (names == std::end(kLauncherVariables) || is_named(variables, *names)) return "";
  return " of process " + std::to_string(starter_of_ranks(names->rank));
}

/// What tells a job of one node from others that its launcher may have given the same name.
std::string names_of_server(const Variables& variables) {
  std::string names;
  for (const auto& [name, value] : variables.all()) {
    if (name.starts_with("PMIX_SERVER_URI")) names += " " + value;
  }
  return names;
}

void form_group(Connection& connection, const Variables& variables) {
  const Placement& here = connection.here;
  Group& group = connection.group;
  group.job = here.source + " " + here.job;
  if (here.inter_size == 1 || here.inter_size == kNotKnown) group.job += names_of_server(variables);
  group.intra_rank = here.intra_rank;
  group.intra_size = here.intra_size;
  group.node = here.inter_rank;
  group.nodes = here.inter_size;
  group.hosts = here.hosts;
  // It most often finds the others of its node, which end with it, and else says at least itself what is wrong.
  constexpr std::chrono::seconds kMaxToTellOthers{5};
  if (!here.error.empty()) group.patience = std::min<std::chrono::milliseconds>(group.patience, kMaxToTellOthers);
}

/// For a launcher that gives nodes no way to find each other.
void leave_node_alone(Connection& connection, const std::string& why) {
  Group& group = connection.group;
  connection.not_compared = why;
  group.node = 0;
  group.nodes = 1;
  group.hosts = {host_name()};
}

/// A rank without a sound position may be the first of its node, whom all others call to be told of the error.
void lead_if_nobody_does(Group& group, const Placement& here) {
  if (group.intra_rank != kNobody || has_leader(group)) return;
  group.intra_rank = 0;
  if (group.intra_size < 1) group.intra_size = std::max(here.size, 1);
}

std::vector<int> first_ranks_of_nodes(const ServerJob& job) {
  const auto layout = make_layout(job.node_ids, job.hosts);
  std::vector<int> first;
  for (int node = 0; node < layout.node_count(); ++node) first.push_back(layout.ranks_of(node).front());
  return first;
}

/// The first rank that did arrive speaks for all.
[[noreturn]] void reject_absence(const std::vector<int>& missing, const ServerJob& job, const Group& group) {
  std::vector<std::string> hosts;
  for (const int rank : missing) hosts.push_back(job.hosts[static_cast<std::size_t>(rank)]);
  int speaker = 0;
  while (std::ranges::find(missing, speaker) != missing.end()) ++speaker;
  if (job.rank != speaker) throw CheckFailed("");
  throw CheckFailed(to_line(late_ranks(hosts, missing, static_cast<int>(job.hosts.size()), group.patience)));
}

void take_pmix_job(Connection& connection, const LauncherRow& launcher, const Signs& signs, PmixSession& session) {
  const ServerJob& job = session.job();
  connection.here = find_placement(launcher, signs, job);
  form_group(connection, signs.variables);
  if (connection.here.inter_size == 1) return;
  try {
    reach_by_board(connection.group, connection.here, first_ranks_of_nodes(job), session);
  } catch (const PmixTimeout& timeout) {
    reject_absence(timeout.missing(), job, connection.group);
  }
}

/// Returns false where the server does not answer; `why` then tells the reason.
bool ask_pmix_server(Connection& connection, const LauncherRow& launcher, Variables& variables, const Signs& signs,
                     const std::filesystem::path& program, std::string& why) {
  std::unique_ptr<PmixSession> session;
  const auto folders = folders_of_mpi(program, variables.get("LD_LIBRARY_PATH").value_or(""));
  try {
    session = std::make_unique<PmixSession>(pmix_libraries(variables, folders), connection.group.patience);
  } catch (const PmixError& error) {
    why = error.what();
    return false;
  }
  take_pmix_job(connection, launcher, signs, *session);
  // For the program, the rank's second client, and while the session still has the store mapped. The other store serves
  // every client, but where mpiexec's own node has no ranks it tells a wrong node's.
  if (!free_locks_of_store()) variables.set("PMIX_MCA_gds", "hash");
  return true;
}

/// The launcher to ask where the PMIx server does not answer, for the reason `why`.
const LauncherRow& other_than_pmix(const Signs& signs, const std::string& why) {
  const LauncherRow& other = launcher_without_server(signs);
  if (other.launcher != Launcher::kNone) return other;
  throw PmixError(why +
                  "; unset the PMIX_* variables of a launcher that has ended, or start mnlaunch directly under one "
                  "that lives");
}

/// False where the server does not speak PMI-1.
bool ask_pmi_server(Connection& connection, const LauncherRow& launcher, const Signs& signs) {
  const Variables& variables = signs.variables;
  PmiSession session(variables.needed("PMI_FD", "a PMI server"), connection.group.patience);
  const auto job =
      session.read_job(variables.needed("PMI_RANK", "a PMI server"), variables.needed("PMI_SIZE", "a PMI server"));
  if (!job) return false;
  connection.here = find_placement(launcher, signs, job);
  form_group(connection, variables);
  if (connection.here.inter_size == 1) return true;
  try {
    reach_by_board(connection.group, connection.here, first_ranks_of_nodes(*job), session);
  } catch (const PmiTimeout&) {
    throw CheckFailed("error [tasks] not all ranks arrived; start mnlaunch on every rank, and look for hung nodes",
                      true);
  }
  return true;
}

/// Where variables tell all that there is to know.
void take_variables(Connection& connection, const LauncherRow& launcher, const Signs& signs, const std::string& why) {
  const Variables& variables = signs.variables;
  Placement& here = connection.here;
  here = find_placement(launcher, signs, std::nullopt);
  form_group(connection, variables);
  const std::string starter = name_of_starter(here, variables);
  connection.group.job += starter;
  if (here.inter_size == 1) here.job += starter;  // on several nodes MASTER_PORT follows from the job's name alone
  if (is_by_slurm(here)) {
    connection.group.job += secret_of_step(variables);
  } else {
    connection.group.job += key_of_user(variables);
    here.job += key_of_user(variables);
  }
  if (here.inter_size == 1) return;
  if (is_by_slurm(here) && !here.hosts.empty()) return reach_by_names(connection.group, here, variables);
  leave_node_alone(connection, why.empty() ? here.source + " does not tell where the other nodes are" : why);
}

}  // namespace

Connection connect_to_launcher(Variables& variables, const std::filesystem::path& program, const Options& options) {
  reject_torchrun(variables);
  Connection connection;
  connection.group.patience = std::chrono::seconds(options.timeout_s);
  connection.group.ports = options.ports;
  const Signs signs = read_signs(variables, is_socket);
  const LauncherRow* launcher = &innermost_launcher(signs);
  if (launcher->launcher == Launcher::kNone) reject_one_of_many(variables);
  bool is_placed = false;
  std::string why;
  if (launcher->needs_server(signs) && launcher->launcher == Launcher::kPmix) {
    is_placed = ask_pmix_server(connection, *launcher, variables, signs, program, why);
    if (!is_placed) launcher = &other_than_pmix(signs, why);
  } else if (launcher->needs_server(signs)) {
    is_placed = ask_pmi_server(connection, *launcher, signs);
  }
  if (!is_placed) take_variables(connection, *launcher, signs, why);
  lead_if_nobody_does(connection.group, connection.here);
  return connection;
}

}  // namespace mn::launcher

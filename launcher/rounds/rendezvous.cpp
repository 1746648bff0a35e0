#include "rounds/rendezvous.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include <mn/core/checksum.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/net/interfaces.hpp>
#include <mn/core/net/socket.hpp>
#include <mn/core/text.hpp>

#include "exchange/munge.hpp"
#include "place/derive_rank.hpp"
#include "place/processes.hpp"
#include "place/slurm.hpp"
#include "rounds/missing_ranks.hpp"
#include "rounds/verdict.hpp"

namespace mn::launcher {
namespace {

constexpr const char* kAddresses = "at";
constexpr const char* kHost = "host";
constexpr const char* kKey = "key";
constexpr const char* kKeyVariable = "MN_LAUNCH_KEY";
constexpr std::chrono::milliseconds kMaxForANameServer{2000};

/// The addresses of the job's PMIx servers: a launcher on a single node may give several jobs the same name.
std::string names_of_server(const Variables& variables) {
  std::string names;
  for (const auto& [name, value] : variables.all()) {
    if (name.starts_with("PMIX_SERVER_URI")) names += " " + value;
  }
  return names;
}

/// Returns the id of the process that started this node's ranks, as an addition to the job's name. Empty if a variable
/// names the job. (LSB_JOBID names a batch job, which may start several jobs.)
std::string name_of_starter(const Placement& here, const Variables& variables) {
  const auto* names = std::ranges::find(kLauncherVariables, here.source, &LauncherVariables::launcher);
  if (names == std::end(kLauncherVariables)) return "";
  if (variables.has(names->job) && names->job != std::string_view("LSB_JOBID")) return "";
  return " of process " + std::to_string(starter_of_ranks(names->rank));
}

std::string key_of_user(const Variables& variables) {
  const auto key = variables.get(kKeyVariable);
  return key ? " " + *key : "";
}

/// A text that the ranks of a Slurm step know and other users can hardly guess: MN_LAUNCH_KEY, and srun's port.
std::string secret_of_step(const Variables& variables) {
  std::string text = key_of_user(variables);
  // Parts of a heterogeneous step have different ports. SLURM_SRUN_COMM_PORT differs beyond 48 nodes.
  if (!variables.has("SLURM_HET_SIZE")) text += " " + variables.get("SLURM_STEP_LAUNCHER_PORT").value_or("");
  return text;
}

/// The addresses of this host, separated by commas, first the address of the host's own name.
std::string own_addresses() {
  const auto interfaces = routed_interfaces();
  const std::string first = own_address(interfaces, addresses_of_own_name());
  std::string list = first;
  for (const auto& interface : interfaces) {
    if (interface.address != first) list += "," + interface.address;
  }
  return list;
}

std::vector<int> neighbors_in_tree(const Group& group) {
  auto nodes = kNodeTree.children_of(group.node, group.nodes);
  if (group.node > 0) nodes.push_back(kNodeTree.parent_of(group.node));
  return nodes;
}

std::vector<int> first_ranks_of_nodes(const ServerJob& job) {
  const auto layout = make_layout(job.node_ids, job.hosts);
  std::vector<int> first;
  for (int node = 0; node < layout.node_count(); ++node) first.push_back(layout.ranks_of(node).front());
  return first;
}

/// Throws CheckFailed for missing ranks. It has a text only on the lowest rank that has arrived.
[[noreturn]] void reject_absence(const std::vector<int>& missing, const ServerJob& job,
                                 std::chrono::milliseconds patience) {
  std::vector<std::string> hosts;
  for (const int rank : missing) hosts.push_back(job.hosts[static_cast<std::size_t>(rank)]);
  int speaker = 0;
  while (std::ranges::find(missing, speaker) != missing.end()) ++speaker;
  if (job.rank != speaker) throw CheckFailed("");
  throw CheckFailed(to_line(late_ranks(hosts, missing, static_cast<int>(job.hosts.size()), patience)));
}

void reach_by_names(Group& group, const Placement& here, const Variables& variables) {
  group.addresses = [hosts = here.hosts](int node) {
    const std::string& host = hosts[static_cast<std::size_t>(node)];
    auto addresses = addresses_of(host, Clock::now() + kMaxForANameServer);
    if (!addresses.empty()) return addresses;
    // In a cloud, the name service may not know Slurm's names of nodes.
    const std::string address = address_by_slurm(host);
    return address.empty() || address == host ? addresses : addresses_of(address, Clock::now() + kMaxForANameServer);
  };
  const std::string job = group.job + " " + variables.get("SLURM_JOB_UID").value_or("");
  group.keys = std::make_shared<MungeKeys>(job, variables.has(kKeyVariable));
}

}  // namespace

Group group_of(const Placement& here, const Variables& variables, const Options& options) {
  Group group;
  group.job = here.source + " " + here.job;
  if (here.inter_size == 1 || here.inter_size == kNotKnown) group.job += names_of_server(variables);
  group.intra_rank = here.intra_rank;
  group.intra_size = here.intra_size;
  group.node = here.inter_rank;
  group.nodes = here.inter_size;
  group.hosts = here.hosts;
  group.ports = options.ports;
  group.patience = std::chrono::seconds(options.timeout_s);
  // The rank waits at most this long for others to learn its error; then it reports alone.
  constexpr std::chrono::seconds kMaxToTellOthers{5};
  if (!here.error.empty()) group.patience = std::min<std::chrono::milliseconds>(group.patience, kMaxToTellOthers);
  return group;
}

void name_job_by_variables(Group& group, Placement& here, const Variables& variables) {
  const std::string starter = name_of_starter(here, variables);
  group.job += starter;
  if (here.inter_size == 1) here.job += starter;  // on several nodes, all derive MASTER_PORT from the job's name
  if (is_by_slurm(here)) {
    group.job += secret_of_step(variables);
  } else {
    group.job += key_of_user(variables);
    here.job += key_of_user(variables);
  }
}

void meet_on_board(Group& group, const Placement& here, const ServerJob& job, Board& board) {
  if (here.intra_rank == 0) {
    board.put(kAddresses, own_addresses());
    board.put(kHost, here.hosts[static_cast<std::size_t>(here.inter_rank)]);
  }
  // Only processes of this job can read the board.
  if (here.rank == 0) board.put(kKey, to_hex(random_key()));
  try {
    board.fence();
  } catch (const FenceTimeout& timeout) {
    reject_absence(timeout.missing, job, group.patience);
  }
  if (here.intra_rank != 0) return;  // only leaders connect to other nodes
  const auto needed = [&](int rank, const char* key) {
    if (auto text = board.get(rank, key)) return *text;
    throw CommError("the launcher's server has lost what rank " + std::to_string(rank) +
                    " told it; start the job again, with srun if there is one");
  };
  const auto key = key_of_hex(needed(0, kKey));
  if (!key) throw CommError("the launcher's server has changed what rank 0 told it; start the job again");
  group.keys = std::make_shared<SharedKey>(*key);
  group.secret = to_hex(*key);
  const auto first_ranks = first_ranks_of_nodes(job);
  std::map<int, std::vector<std::string>> addresses;
  for (const int node : neighbors_in_tree(group)) {
    const int rank = first_ranks[static_cast<std::size_t>(node)];
    const std::string list = needed(rank, kAddresses);
    for (const auto address : split(list, ',')) addresses[node].emplace_back(address);
    group.hosts[static_cast<std::size_t>(node)] = needed(rank, kHost);
  }
  group.addresses = [addresses](int node) { return addresses.at(node); };
}

std::string meet_by_variables(Group& group, const Placement& here, const Variables& variables,
                              const std::string& why_silent) {
  if (is_by_slurm(here) && !here.hosts.empty()) {
    reach_by_names(group, here, variables);
    return "";
  }
  group.node = 0;
  group.nodes = 1;
  group.hosts = {host_name()};
  return why_silent.empty() ? here.source + " does not tell where the other nodes are" : why_silent;
}

void lead_if_nobody_does(Group& group, const Placement& here) {
  if (group.intra_rank != kNobody || has_leader(group)) return;
  group.intra_rank = 0;
  if (group.intra_size < 1) group.intra_size = std::max(here.size, 1);
}

std::string master_elsewhere(const Variables& variables) {
  const auto exported = variables.get("MASTER_ADDR");
  const std::string first = exported ? *exported : first_host_of_allocation(variables);
  if (is_own_host(first)) return "";
  if (exported) return ", and MASTER_ADDR is " + first + ", another host than rank 0's";
  return ", and other nodes than this get " + (first.empty() ? "no" : first + ", another host, as") +
         " MASTER_ADDR unless you export it";
}

int port_of_job(std::string_view job, std::span<const PortRange> ranges) { return ranges.front().choose(hash64(job)); }

int free_port_of_job(std::string_view job, std::span<const PortRange> ranges, const std::function<bool(int)>& is_free) {
  std::string tried;
  for (const auto& range : ranges) {
    for (int further = 0; further <= range.last - range.first; ++further) {
      const int port = range.choose(hash64(job), further);
      if (is_free(port)) return port;
    }
    tried += (tried.empty() ? "" : " and ") + to_text(range);
  }
  throw CommError("none of the TCP ports " + tried +
                  " is free on this host, so that there is none for MASTER_PORT; give others with --ports");
}

bool is_free_port(int port) { return static_cast<bool>(listen_on_port(static_cast<std::uint16_t>(port))); }

}  // namespace mn::launcher

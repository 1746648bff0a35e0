#include "rounds/rendezvous.hpp"

#include <map>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/net/interfaces.hpp>
#include <mn/core/text.hpp>

#include "exchange/munge.hpp"
#include "exchange/node_tree.hpp"
#include "place/slurm.hpp"

namespace mn::launcher {
namespace {

constexpr const char* kAddresses = "at";
constexpr const char* kHost = "host";
constexpr const char* kKey = "key";
constexpr const char* kKeyVariable = "MN_LAUNCH_KEY";
constexpr std::chrono::milliseconds kMaxForANameServer{2000};

/// This host's addresses with commas between them, the one that its name leads to first.
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

}  // namespace

std::string key_of_user(const Variables& variables) {
  const auto key = variables.get(kKeyVariable);
  return key ? " " + *key : "";
}

std::string secret_of_step(const Variables& variables) {
  std::string text = key_of_user(variables);
  // Each component of a heterogeneous step has a port of its own. SLURM_SRUN_COMM_PORT would differ beyond 48 nodes.
  if (!variables.has("SLURM_HET_SIZE")) text += " " + variables.get("SLURM_STEP_LAUNCHER_PORT").value_or("");
  return text;
}

void reach_by_names(Group& group, const Placement& here, const Variables& variables) {
  group.addresses = [hosts = here.hosts](int node) {
    const std::string& host = hosts[static_cast<std::size_t>(node)];
    auto addresses = addresses_of(host, Clock::now() + kMaxForANameServer);
    if (!addresses.empty()) return addresses;
    // In a cloud the names of nodes may lead nowhere.
    const std::string address = address_by_slurm(host);
    return address.empty() || address == host ? addresses : addresses_of(address, Clock::now() + kMaxForANameServer);
  };
  const std::string job = group.job + " " + variables.get("SLURM_JOB_UID").value_or("");
  group.keys = std::make_shared<MungeKeys>(job, variables.has(kKeyVariable));
}

void reach_by_board(Group& group, const Placement& here, const std::vector<int>& first_ranks, Board& board) {
  if (here.intra_rank == 0) {
    board.put(kAddresses, own_addresses());
    board.put(kHost, here.hosts[static_cast<std::size_t>(here.inter_rank)]);
  }
  // Only processes of this job can read the board.
  if (here.rank == 0) board.put(kKey, to_hex(random_key()));
  // All put before anyone reads; ranks that are not leaders only take part in the fence.
  board.fence();
  if (here.intra_rank != 0) return;
  const auto needed = [&](int rank, const char* key) {
    if (auto text = board.get(rank, key)) return *text;
    throw CommError("the launcher's server has lost what rank " + std::to_string(rank) +
                    " told it; start the job again, with srun if there is one");
  };
  const auto key = key_of_hex(needed(0, kKey));
  if (!key) throw CommError("the launcher's server has changed what rank 0 told it; start the job again");
  group.keys = std::make_shared<SharedKey>(*key);
  group.secret = to_hex(*key);
  std::map<int, std::vector<std::string>> addresses;
  for (const int node : neighbors_in_tree(group)) {
    const int rank = first_ranks[static_cast<std::size_t>(node)];
    const std::string list = needed(rank, kAddresses);
    for (const auto address : split(list, ',')) addresses[node].emplace_back(address);
    group.hosts[static_cast<std::size_t>(node)] = needed(rank, kHost);
  }
  group.addresses = [addresses](int node) { return addresses.at(node); };
}

std::string master_elsewhere(const Variables& variables) {
  const auto exported = variables.get("MASTER_ADDR");
  const std::string first = exported ? *exported : first_host_of_allocation(variables);
  if (is_own_host(first)) return "";
  if (exported) return ", and MASTER_ADDR is " + first + ", another host than rank 0's";
  return ", and other nodes than this get " + (first.empty() ? "no" : first + ", another host, as") +
         " MASTER_ADDR unless you export it";
}

}  // namespace mn::launcher

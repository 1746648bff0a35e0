#include <algorithm>

#include "checks/checks.hpp"
#include "checks/comparison.hpp"

namespace mn::launcher {
namespace {

bool has(const std::vector<std::string>& texts, const std::string& text) {
  return std::ranges::find(texts, text) != texts.end();
}

bool has_card(const NodeFacts& node) { return node.network && !node.network->addresses.empty(); }

/// The subnet of a node with a card.
std::optional<std::string> subnet_of_node(const NodeFacts& node) {
  return has_card(node) ? node.network->subnet : std::nullopt;
}

}  // namespace

Findings check_address(const JobFacts& job) {
  if (job.nodes.size() < 2) return {};
  const auto has_no_address = [](const NodeFacts& node) { return node.network && node.network->resolved.empty(); };
  // As in clouds: the nodes have found each other by addresses, and programs get addresses, too.
  if (std::ranges::all_of(job.nodes, has_no_address)) return {};
  Findings findings;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    if (!job.nodes[node].network) continue;
    if (!has_card(job.nodes[node]) && job.runs("network")) continue;  // without a card there is no address for the name
    const auto& resolved = job.nodes[node].network->resolved;
    const auto& own = job.nodes[node].network->addresses;
    const std::string host = job.nodes[node].host.value_or(job.host(node));
    const bool loopback =
        std::ranges::any_of(resolved, [](const auto& a) { return a.starts_with("127.") || a == "::1"; });
    const bool is_own = std::ranges::any_of(resolved, [&](const auto& a) { return has(own, a); });
    // A name of loopback works on its own node, but sends all further nodes to themselves.
    if (!loopback && is_own) continue;
    const std::string what = resolved.empty() ? "does not resolve" : "resolves to " + resolved.front();
    add(findings,
        error_of("address", "the host's own name " + host + " " + what + ", not to an address of its network card",
                 "correct /etc/hosts or DNS there: the name must lead to an address that the other nodes reach")
            .on(job.host(node)));
  }
  return findings;
}

Findings check_subnet(const JobFacts& job) {
  if (job.nodes.size() < 2) return {};
  Findings findings = affected(job,
                               error_of("network", "there is no network card with an address",
                                        "bring its interface up (ip link, ip addr), or leave the node out (--exclude)"),
                               [](const NodeFacts& node) { return node.network && !has_card(node); });
  for (const auto& odd : odd_nodes(values_of(job, subnet_of_node))) {
    if (!odd.value) continue;
    for (const std::size_t node : odd.nodes) {
      const NetworkFacts& network = *job.nodes[node].network;
      const bool has_usual = has(network.subnets, odd.usual);
      // Networks with routes between them, as between two racks, are in order.
      if (!has_usual && network.failures.empty()) continue;
      const std::string what = "its address lies in " + *odd.value + ", those of the other nodes in " + odd.usual;
      Finding found = has_usual ? warning_of("network", what + ", where it has a card too",
                                             "let its name lead to that card's address (/etc/hosts, DNS)")
                                : error_of("network", what + ", and they don't reach each other",
                                           "bring up its card there (ip addr), or leave the node out (--exclude)");
      add(findings, std::move(found).on(job.host(node)));
    }
  }
  return findings;
}

Findings check_connections(const JobFacts& job) {
  Findings findings;
  const Findings causes = job.runs("network") ? check_subnet(job) : Findings();
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    // A node in a wrong subnet fails all its connections: report the subnet only.
    const auto explains = [&](const Finding& cause) { return cause.is_error && has(cause.hosts, job.host(node)); };
    if (!job.nodes[node].network || std::ranges::any_of(causes, explains)) continue;
    for (const auto& failure : job.nodes[node].network->failures) {
      findings.push_back(
          error_of("connect", failure,
                   "open the firewall between compute nodes (iptables -L), or leave the node out (--exclude)")
              .on(job.host(node)));
    }
  }
  return findings;
}

}  // namespace mn::launcher

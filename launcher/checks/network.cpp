#include <algorithm>
#include <cmath>
#include <set>

#include "checks/checks.hpp"
#include "checks/comparison.hpp"

namespace mn::launcher {
namespace {

bool has(const std::vector<std::string>& texts, const std::string& text) {
  return std::ranges::find(texts, text) != texts.end();
}

bool has_card(const NodeFacts& node) { return node.network && !node.network->addresses.empty(); }

std::optional<std::string> subnet_of_node(const NodeFacts& node) {
  return has_card(node) ? node.network->subnet : std::nullopt;
}

// A port with more lost links or errors has a bad cable. Source: Azure's node health checks.
constexpr double kDownsPerDay = 5;
constexpr double kErrorsPerHour = 200;

const PortFacts* find_port(const NodeFacts& node, const std::string& name) {
  const auto found = std::ranges::find(node.system.ports, name, &PortFacts::name);
  return found == node.system.ports.end() ? nullptr : &*found;
}

bool is_active(const PortFacts* port) { return port != nullptr && port->state == kActivePort; }

std::set<std::string> all_ports(const JobFacts& job) {
  std::set<std::string> names;
  for (const auto& node : job.nodes) {
    for (const auto& port : node.system.ports) names.insert(port.name);
  }
  return names;
}

std::size_t count_active(const NodeFacts& node, bool fabric) {
  return static_cast<std::size_t>(std::ranges::count_if(node.system.ports, [&](const PortFacts& port) {
    return is_fabric_port(port.name) == fabric && is_active(&port);
  }));
}

/// Reports the nodes, with or without GPUs, on which the port `name` is not active. Ignores a port in use on less than
/// half of the nodes (it may be a spare) and a node with the usual number of active ports (their names may differ).
Findings compare_states(const JobFacts& job, const std::string& name, bool with_gpus) {
  const auto is_asked = [&](const NodeFacts& node) {
    return has_gpus(node) == with_gpus && !node.system.ports.empty();
  };
  std::vector<std::size_t> counts;
  for (const auto& node : job.nodes) {
    if (is_asked(node)) counts.push_back(count_active(node, is_fabric_port(name)));
  }
  std::ranges::sort(counts);
  const std::size_t usual = counts.empty() ? 0 : counts[counts.size() / 2];  // the median
  const auto is_up = [&](const NodeFacts& node) { return is_asked(node) && is_active(find_port(node, name)); };
  if (2 * std::ranges::count_if(job.nodes, is_up) < std::ranges::count_if(job.nodes, is_asked)) return {};
  return on_each_node(job, [&](std::size_t node, auto report) {
    const PortFacts* port = find_port(job.nodes[node], name);
    if (!is_asked(job.nodes[node]) || is_active(port)) return;
    if (count_active(job.nodes[node], is_fabric_port(name)) >= usual) return;
    const std::string state = port == nullptr ? "absent" : port->state.value_or("in no known state");
    const auto found = is_fabric_port(name) ? error_of : warning_of;
    report(found("fabric", "the network port " + name + " is " + state + ", but " + kActivePort + " on other nodes",
                 "look at card, cable and switch (ibstat, ip link), or leave the node out (--exclude)", "isolate"));
  });
}

Findings count_failures(const JobFacts& job) {
  constexpr double kHour = 3600;
  constexpr double kDay = 24 * kHour;
  return on_each_node(job, [&](std::size_t node, auto report) {
    // At least a day: soon after a boot, a few lost links would look like many.
    const double uptime = std::max(job.nodes[node].system.uptime_s.value_or(0), kDay);
    for (const auto& port : job.nodes[node].system.ports) {
      const auto warn = [&](const std::string& what) {
        report(warning_of("fabric",
                          "the network port " + port.name + " " + what +
                              " since the node came up (days: " + std::to_string(std::lround(uptime / kDay)) + ")",
                          "clean or replace its cable and connectors, or leave the node out (--exclude)", "watch"));
      };
      if (port.is_full) {
        report(warning_of("fabric", "a counter of lost links or errors of the network port " + port.name + " is full",
                          "reset it (perfquery -R), look at the cable, and let --doctor see what comes back", "watch"));
        continue;
      }
      const auto downs = static_cast<double>(port.downs.value_or(0));
      const auto errors = static_cast<double>(port.errors.value_or(0));
      if (downs / uptime * kDay > kDownsPerDay) warn("lost its link " + std::to_string(*port.downs) + " times");
      if (errors / uptime * kHour > kErrorsPerHour) warn("counted " + std::to_string(*port.errors) + " errors");
    }
  });
}

}  // namespace

Findings check_address(const JobFacts& job) {
  if (job.nodes.size() < 2) return {};
  const auto has_no_address = [](const NodeFacts& node) { return node.network && node.network->resolved.empty(); };
  // In some clouds host names have no addresses; the nodes have found each other without names.
  if (std::ranges::all_of(job.nodes, has_no_address)) return {};
  return on_each_node(job, [&](std::size_t node, auto report) {
    if (!job.nodes[node].network) return;
    if (!has_card(job.nodes[node]) && job.runs("network")) return;  // check_subnet reports a missing card
    const auto& resolved = job.nodes[node].network->resolved;
    const auto& own = job.nodes[node].network->addresses;
    const std::string host = job.nodes[node].host.value_or(job.host(node));
    const bool loopback =
        std::ranges::any_of(resolved, [](const auto& a) { return a.starts_with("127.") || a == "::1"; });
    const bool is_own = std::ranges::any_of(resolved, [&](const auto& a) { return has(own, a); });
    // On the host itself, a loopback address works; other nodes would connect to themselves.
    if (!loopback && is_own) return;
    const std::string what = resolved.empty() ? "does not resolve" : "resolves to " + resolved.front();
    report(error_of("address", "the host's own name " + host + " " + what + ", not to an address of its network card",
                    "correct /etc/hosts or DNS there: the name must lead to an address that the other nodes reach"));
  });
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
      // Nodes in different networks are no fault if routes connect the networks.
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
    // A node in a wrong subnet has no working connection; then only the subnet is reported.
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

Findings check_fabric(const JobFacts& job) {
  Findings findings;
  for (const auto& name : all_ports(job)) {
    for (const bool with_gpus : {true, false}) append(findings, compare_states(job, name, with_gpus));
    const auto rate = [&](const NodeFacts& node) {
      const PortFacts* port = find_port(node, name);
      return is_active(port) ? port->rate : std::nullopt;
    };
    append(findings,
           differences(job,
                       warning_of("fabric", "the rate of the network port " + name,
                                  "look at its cable and its port of the switch: the slowest link sets the pace"),
                       rate, NoValue::kSkip, Among::kEachKind));
  }
  append(findings, count_failures(job));
  return findings;
}

}  // namespace mn::launcher

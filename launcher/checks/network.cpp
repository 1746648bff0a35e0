#include <algorithm>
#include <set>

#include "checks/checks.hpp"

namespace mn::launcher {
namespace {

std::vector<std::string> strings(const Facts& node, const char* pointer) {
  return node.value(Facts::json_pointer(pointer), std::vector<std::string>());
}

}  // namespace

Findings check_address(const JobFacts& job) {
  if (job.nodes.size() < 2) return {};
  Findings findings;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    const auto resolved = strings(job.nodes[node], "/network/resolved");
    const std::string host = job.nodes[node].value("host", job.host(node));
    const bool loopback = std::ranges::any_of(resolved, [](const auto& a) { return a.starts_with("127."); });
    const auto own = strings(job.nodes[node], "/network/addresses");
    const bool is_own =
        std::ranges::any_of(resolved, [&](const auto& a) { return std::ranges::find(own, a) != own.end(); });
    if (!loopback && is_own) continue;
    const std::string what = resolved.empty() ? "does not resolve" : "resolves to " + resolved.front();
    findings.push_back(
        {"address",
         true,
         {job.host(node)},
         "the host's own name " + host + " " + what + ", not to an address of its network card",
         "correct /etc/hosts or DNS there: the name must lead to an address that the other nodes reach"});
  }
  return findings;
}

Findings check_subnet(const JobFacts& job) {
  if (job.nodes.size() < 2) return {};
  const auto has_card = [](const Facts& node) { return !strings(node, "/network/addresses").empty(); };
  Findings findings = where(job,
                            {"network",
                             true,
                             {},
                             "there is no network card with an address",
                             "bring its interface up (ip link, ip addr), or leave the node out (--exclude)"},
                            [&](const Facts& node) { return !has_card(node); });
  for (const auto& odd : odd_nodes(job, "/network/subnet")) {
    for (std::size_t node = 0; node < job.nodes.size(); ++node) {
      const Facts& facts = job.nodes[node];
      if (!has_card(facts) || facts.value(Facts::json_pointer("/network/subnet"), "") != odd.value) continue;
      const auto subnets = strings(facts, "/network/subnets");
      const bool has_usual = std::ranges::find(subnets, odd.usual) != subnets.end();
      // Networks that are routed to each other, such as those of two racks, are in order.
      if (!has_usual && strings(facts, "/network/failures").empty()) continue;
      const std::string what = "its address lies in " + odd.value + ", those of the other nodes in " + odd.usual;
      if (has_usual) {
        add(findings, {"network",
                       false,
                       {job.host(node)},
                       what + ", where it has a card too",
                       "let its name lead to that card's address (/etc/hosts, DNS)"});
      } else {
        add(findings, {"network",
                       true,
                       {job.host(node)},
                       what + ", and they don't reach each other",
                       "bring up its card there (ip addr), or leave the node out (--exclude)"});
      }
    }
  }
  return findings;
}

Findings check_connections(const JobFacts& job) {
  Findings findings;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    for (const auto& failure : strings(job.nodes[node], "/network/failures")) {
      findings.push_back({"connect",
                          true,
                          {job.host(node)},
                          failure,
                          "open the firewall between compute nodes (iptables -L), or leave the node out (--exclude)"});
    }
  }
  return findings;
}

}  // namespace mn::launcher

#include "exchange/group.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>

#include <unistd.h>

#include <mn/core/checksum.hpp>

namespace mn::launcher {
namespace {

constexpr int kCandidates = 8;  ///< other processes may have some of the ports

std::string text_of_candidate(const Group& group, int node, int candidate) {
  return group.job + " node " + std::to_string(node) + " candidate " + std::to_string(candidate);
}

void add_ports(std::vector<std::uint16_t>& ports, const Group& group, int node, std::span<const PortRange> ranges) {
  for (int i = 0; i < kCandidates; ++i) {
    // An equal number of ports from each range, the first range first.
    const PortRange& range = ranges[static_cast<std::size_t>(i) * ranges.size() / kCandidates];
    const std::uint64_t hash = hash64(text_of_candidate(group, node, i) + group.secret);
    ports.push_back(static_cast<std::uint16_t>(range.choose(hash)));
  }
}

}  // namespace

std::vector<std::uint16_t> ports_of(const Group& group, int node) {
  std::vector<std::uint16_t> ports;
  add_ports(ports, group, node, group.ports);
  // Also try the default ports: a node started without --ports listens there, and the given ports may be taken.
  if (!std::ranges::equal(group.ports, kDefaultPorts)) add_ports(ports, group, node, kDefaultPorts);
  return ports;
}

std::vector<std::string> names_of(const Group& group) {
  std::vector<std::string> names;
  for (int i = 0; i < kCandidates; ++i) {
    const std::string text = text_of_candidate(group, group.node, i) + " user " + std::to_string(geteuid());
    names.push_back("mnlaunch-" + to_hex(key_of_text(text)).substr(0, 32));
  }
  return names;
}

std::vector<Endpoint> endpoints_of_node(const Group& group, int node) {
  std::vector<Endpoint> endpoints;
  const auto addresses = group.addresses(node);
  // Ports outside, addresses inside: usually the first port answers, at one of the addresses.
  for (const auto port : ports_of(group, node)) {
    for (const auto& address : addresses) endpoints.push_back({address, port});
  }
  return endpoints;
}

std::vector<Endpoint> endpoints_of_leader(const Group& group) {
  std::vector<Endpoint> endpoints;
  for (const auto& name : names_of(group)) endpoints.push_back({"@" + name, 0});
  return endpoints;
}

bool has_leader(const Group& group) {
  constexpr std::chrono::seconds kMaxForALeader{1};
  constexpr std::chrono::milliseconds kBetweenCalls{20};
  const auto answers = [](const Endpoint& endpoint) {
    const Fd leader = begin_connection(endpoint);
    return leader && is_own_users(leader);
  };
  const auto endpoints = endpoints_of_leader(group);
  for (const Deadline until = Clock::now() + kMaxForALeader; Clock::now() < until;) {
    if (std::ranges::any_of(endpoints, answers)) return true;
    std::this_thread::sleep_for(kBetweenCalls);
  }
  return false;
}

bool claim_text(const std::string& text) {
  static const Fd name = listen_on_name("mnlaunch-" + to_hex(key_of_text(text)));
  return static_cast<bool>(name);
}

}  // namespace mn::launcher

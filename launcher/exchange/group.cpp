#include "exchange/group.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <span>
#include <thread>

#include <poll.h>
#include <unistd.h>

#include <mn/core/checksum.hpp>

namespace mn::launcher {
namespace {

constexpr int kCandidates = 8;  ///< names or ports to try: other processes may have some

std::string text_of_candidate(const Group& group, int node, int candidate) {
  return group.job + " node " + std::to_string(node) + " candidate " + std::to_string(candidate);
}

void add_ports(std::vector<std::uint16_t>& ports, const Group& group, int node, std::span<const PortRange> ranges) {
  for (int i = 0; i < kCandidates; ++i) {
    const PortRange& range = ranges[static_cast<std::size_t>(i) * ranges.size() / kCandidates];
    const std::uint64_t hash = hash64(text_of_candidate(group, node, i) + group.secret);
    ports.push_back(static_cast<std::uint16_t>(range.choose(hash)));
  }
}

bool is_listening(const Endpoint& name) {
  const Fd connection = begin_connection(name);
  return connection && is_own_users(connection);
}

constexpr std::size_t kOthers = 32;  // descriptors for connections to other nodes, and for files

std::size_t open_files() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  return error ? 0 : static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

}  // namespace

std::vector<std::uint16_t> ports_of(const Group& group, int node) {
  std::vector<std::uint16_t> ports;
  add_ports(ports, group, node, group.ports);
  // A node that was started without --ports listens on the default ports.
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
  // The first port is tried at all addresses before the next port, because the first port usually answers somewhere.
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
  const auto endpoints = endpoints_of_leader(group);
  for (const Deadline until = Clock::now() + kMaxForALeader; Clock::now() < until;) {
    if (std::ranges::any_of(endpoints, is_listening)) return true;
    std::this_thread::sleep_for(kBetweenCalls);
  }
  return false;
}

bool claim_text(const std::string& text) {
  static const Fd name = listen_on_name("mnlaunch-" + to_hex(key_of_text(text)));
  return static_cast<bool>(name);
}

std::vector<std::string> probe(const std::vector<Endpoint>& endpoints, std::chrono::milliseconds patience) {
  const Deadline deadline = Clock::now() + patience;
  std::vector<std::string> failures(endpoints.size(), "no answer in " + std::to_string(patience.count()) + " ms");
  std::vector<Fd> sockets;
  std::vector<pollfd> entries;
  std::size_t under_way = 0;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    sockets.push_back(begin_connection(endpoints[i]));
    if (!sockets[i]) failures[i] = std::strerror(errno);
    if (sockets[i]) ++under_way;
    entries.push_back({sockets[i].get(), POLLOUT, 0});  // poll() skips negative descriptors
  }
  while (under_way > 0) {
    // Polls once even after the deadline: a process that got no CPU time before then still sees the answers.
    if (poll(entries.data(), entries.size(), milliseconds_until(deadline)) == 0) break;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].fd < 0 || entries[i].revents == 0) continue;
      const int error = connection_error(sockets[i]);
      failures[i] = error == 0 ? "" : std::strerror(error);
      entries[i].fd = -1;
      --under_way;
    }
  }
  return failures;
}

FileLimit::FileLimit(std::size_t ranks) {
  if (getrlimit(RLIMIT_NOFILE, &before_) != 0) return;
  const rlim_t needed = open_files() + 2 * ranks + kOthers;
  if (needed <= before_.rlim_cur) return;
  const rlim_t limit = std::min(std::max(needed, before_.rlim_cur + ranks), before_.rlim_max);
  const rlimit raised = {.rlim_cur = limit, .rlim_max = before_.rlim_max};
  is_raised_ = needed <= limit && setrlimit(RLIMIT_NOFILE, &raised) == 0;
  if (is_raised_) {
    least_kept = static_cast<int>(std::min(before_.rlim_cur, limit - ranks));
  } else {
    failure = "the first rank of a node with " + std::to_string(ranks) + " ranks needs " + std::to_string(needed) +
              " open files, and may have " + std::to_string(before_.rlim_max) +
              "; raise the limit (ulimit -Hn; LimitNOFILE in slurmd.service)";
  }
}

FileLimit::~FileLimit() {
  if (is_raised_) setrlimit(RLIMIT_NOFILE, &before_);
}

NodeListener listen_for_ranks(Group& group) {
  constexpr std::chrono::milliseconds kSecondLeaderPatience{5000};
  NodeListener local;
  if (!group.is_leader() || group.intra_size == 1) return local;
  local.files = std::make_unique<FileLimit>(static_cast<std::size_t>(group.intra_size));
  local.failure = local.files->failure;
  if (!local.failure.empty()) return local;
  for (const auto& name : names_of(group)) {
    local.socket = listen_on_name(name);
    // All ranks try the names in the same order, so they find this leader at the first free name.
    if (local.socket) return local;
    local.is_second = is_listening({"@" + name, 0});
    if (!local.is_second) continue;
    group.intra_rank = -1;
    group.patience = std::min(group.patience, kSecondLeaderPatience);
    return local;
  }
  local.failure = "other processes have the names on which the ranks of this node connect";
  return local;
}

}  // namespace mn::launcher

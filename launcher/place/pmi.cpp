#include "place/pmi.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdio>

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/environment.hpp>

namespace mn::launcher {
namespace {

/// The value of `field` in "cmd=get_result rc=0 value=(vector,(0,1,2))\n"; values have no spaces.
std::optional<std::string> value_of(const std::string& answer, const std::string& field) {
  const std::string line = " " + answer;
  const std::size_t at = line.find(" " + field + "=");
  if (at == std::string::npos) return std::nullopt;
  const std::size_t begin = at + field.size() + 2;
  return line.substr(begin, line.find_first_of(" \n", begin) - begin);
}

constexpr int kMostRanks = 10'000'000;
constexpr std::size_t kMostAnswerBytes = 1 << 16;  // PMI-1 allows lines of 1 KiB and a little more

std::string host_key(int node) { return "mn-host-" + std::to_string(node); }

}  // namespace

std::optional<std::vector<int>> nodes_of_mapping(std::string_view mapping, int size) {
  struct Block {
    int first, nodes, ranks;
  };
  std::vector<Block> blocks;
  const std::string text(mapping);
  for (std::size_t at = text.find(",("); at != std::string::npos; at = text.find(",(", at + 1)) {
    Block block{};
    if (std::sscanf(text.c_str() + at, ",(%d,%d,%d)", &block.first, &block.nodes, &block.ranks) != 3)
      return std::nullopt;
    if (block.first < 0 || block.first > kMostRanks || block.nodes < 1 || block.ranks < 1) return std::nullopt;
    blocks.push_back(block);
  }
  if (!mapping.starts_with("(vector,") || blocks.empty()) return std::nullopt;
  if (size > kMostRanks) return std::nullopt;
  std::vector<int> nodes;
  for (std::size_t i = 0; static_cast<int>(nodes.size()) < size; i = (i + 1) % blocks.size()) {
    const Block& block = blocks[i];
    const std::int64_t ranks = std::int64_t{block.nodes} * block.ranks;
    for (int k = 0; k < ranks && static_cast<int>(nodes.size()) < size; ++k) {
      nodes.push_back(block.first + k / block.ranks);
    }
  }
  return nodes;
}

std::optional<std::string> PmiSession::ask(const std::string& command, const std::string& field,
                                           std::chrono::milliseconds patience) {
  const std::string request = "cmd=" + command + "\n";
  if (send(fd_, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    return std::nullopt;
  std::string answer;
  while (!answer.ends_with('\n')) {
    if (answer.size() > kMostAnswerBytes) return std::nullopt;
    pollfd readable{fd_, POLLIN, 0};
    char c = 0;  // byte by byte: what follows the line is not ours
    if (poll(&readable, 1, static_cast<int>(patience.count())) != 1 || recv(fd_, &c, 1, 0) != 1) return std::nullopt;
    answer += c;
  }
  return value_of(answer, field);
}

std::optional<std::string> PmiSession::get(const std::string& key) {
  return ask("get kvsname=" + space_ + " key=" + key, "value");
}

bool PmiSession::leave_finalizer() const {
  const int self = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (self < 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    if (fork() != 0) _exit(0);  // a grandchild: the program must not find a child that it did not start
    setsid();
    dup2(fd_, 0);
    dup2(self, 1);
    for (int fd = 2; fd < 1024; ++fd) close(fd);  // others wait for the end of this process's output
    pollfd ended{1, POLLIN, 0};
    while (poll(&ended, 1, -1) < 0 && errno == EINTR) continue;
    static_cast<void>(PmiSession(0).ask("finalize", "cmd"));
    _exit(0);
  }
  close(self);
  return child > 0 && waitpid(child, nullptr, 0) == child;
}

std::optional<ServerJob> PmiSession::read_job(int rank, int size) {
  if (rank < 0 || rank >= size || !leave_finalizer()) return std::nullopt;
  if (ask("init pmi_version=1 pmi_subversion=1", "rc") != "0") return std::nullopt;
  space_ = ask("get_my_kvsname", "kvsname").value_or("");
  const auto nodes = nodes_of_mapping(get("PMI_process_mapping").value_or(""), size);
  if (space_.empty() || !nodes) return std::nullopt;
  ServerJob job{.name_space = space_, .rank = rank, .node_ids = *nodes, .hosts = {}};
  for (const int node : *nodes) {
    const bool is_here = node == nodes->at(static_cast<std::size_t>(rank));
    job.hosts.push_back(is_here ? host_name() : "node-" + std::to_string(node));
  }
  return job;
}

std::optional<std::string> PmiSession::share_address(Placement& here, const std::string& address,
                                                     std::chrono::milliseconds patience) {
  if (here.intra_rank == 0) {
    static_cast<void>(
        ask("put kvsname=" + space_ + " key=" + host_key(here.inter_rank) + " value=" + host_name(), "rc"));
  }
  if (here.rank == 0) static_cast<void>(ask("put kvsname=" + space_ + " key=mn-address value=" + address, "rc"));
  if (ask("barrier_in", "cmd", patience) == std::nullopt) return std::nullopt;
  for (int node = 0; node < (here.rank == 0 ? here.inter_size : 1); ++node) {
    auto& name = here.layout->hosts[static_cast<std::size_t>(node)];
    name = get(host_key(node)).value_or(name);
  }
  return get("mn-address");
}

}  // namespace mn::launcher

#include "place/pmi.hpp"

#include <cstdint>
#include <cstdio>

#include <poll.h>
#include <sys/socket.h>

#include <mn/core/environment.hpp>

#include "place/pmi_finalizer.hpp"

namespace mn::launcher {
namespace {

/// The value of `field` in "cmd=get_result rc=0 value=(vector,(0,1,2))\n". Values have no blanks.
std::optional<std::string> value_of(const std::string& answer, const std::string& field) {
  const std::string line = " " + answer;
  const std::size_t at = line.find(" " + field + "=");
  if (at == std::string::npos) return std::nullopt;
  const std::size_t begin = at + field.size() + 2;
  return line.substr(begin, line.find_first_of(" \n", begin) - begin);
}

constexpr int kMaxRanks = 10'000'000;
constexpr int kMaxGenerations = 1000;
constexpr std::size_t kMaxAnswerBytes = 1 << 16;  // PMI-1 allows lines of 1 KiB and a little more

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
    if (block.first < 0 || block.first > kMaxRanks || block.nodes < 1 || block.ranks < 1) return std::nullopt;
    blocks.push_back(block);
  }
  if (!mapping.starts_with("(vector,") || blocks.empty()) return std::nullopt;
  if (size > kMaxRanks) return std::nullopt;
  std::vector<int> nodes;
  // The blocks repeat until all ranks have a node: Hydra writes a cyclic layout so.
  for (std::size_t i = 0; static_cast<int>(nodes.size()) < size; i = (i + 1) % blocks.size()) {
    const Block& block = blocks[i];
    const std::int64_t ranks = std::int64_t{block.nodes} * block.ranks;
    for (int k = 0; k < ranks && static_cast<int>(nodes.size()) < size; ++k) {
      nodes.push_back(block.first + k / block.ranks);
    }
  }
  return nodes;
}

PmiSession::~PmiSession() {
  if (has_spoken_) leave_pmi_finalizer(fd_);
}

std::string PmiSession::ask(const std::string& command, std::chrono::milliseconds patience) {
  const std::string request = "cmd=" + command + "\n";
  if (send(fd_, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) return "";
  std::string answer;
  while (!answer.ends_with('\n')) {
    if (answer.size() > kMaxAnswerBytes) return "";
    pollfd readable{fd_, POLLIN, 0};
    char c = 0;  // byte by byte: text behind the line end is for the program
    if (poll(&readable, 1, static_cast<int>(patience.count())) != 1 || recv(fd_, &c, 1, 0) != 1) return "";
    answer += c;
    has_spoken_ = true;  // a server that never answers needs no finalizer
  }
  return answer;
}

std::optional<std::string> PmiSession::get_text(const std::string& key) {
  const std::string answer = ask("get kvsname=" + space_ + " key=" + key);
  return value_of(answer, "rc").value_or("0") == "0" ? value_of(answer, "value") : std::nullopt;
}

std::string PmiSession::key_of(int rank, const std::string& key) const {
  return "mn-" + std::to_string(generation_) + "-" + std::to_string(rank) + "-" + key;
}

void PmiSession::begin_generation() {
  // Values of an earlier process of this rank cannot be removed, so each process counts on to unused keys.
  while (generation_ < kMaxGenerations && get_text(key_of(rank_, "came"))) ++generation_;
  put("came", "1");
}

std::optional<ServerJob> PmiSession::read_job(int rank, int size) {
  if (rank < 0 || rank >= size || !can_leave_pmi_finalizer()) return std::nullopt;
  // The finalizer of an earlier mnlaunch on the socket would read answers meant for this process.
  dismiss_pmi_finalizers(fd_);
  if (value_of(ask("init pmi_version=1 pmi_subversion=1"), "rc") != "0") return std::nullopt;
  rank_ = rank;
  space_ = value_of(ask("get_my_kvsname"), "kvsname").value_or("");
  const auto nodes = nodes_of_mapping(get_text("PMI_process_mapping").value_or(""), size);
  if (space_.empty() || !nodes) return std::nullopt;
  ServerJob job{.name_space = space_, .rank = rank, .node_ids = *nodes, .hosts = {}};
  for (const int node : *nodes) {
    const bool is_here = node == nodes->at(static_cast<std::size_t>(rank));
    job.hosts.push_back(is_here ? host_name() : "node-" + std::to_string(node));
  }
  begin_generation();
  return job;
}

void PmiSession::put(const std::string& key, const std::string& text) {
  static_cast<void>(ask("put kvsname=" + space_ + " key=" + key_of(rank_, key) + " value=" + text));
}

void PmiSession::fence() {
  if (value_of(ask("barrier_in", patience_), "cmd") != "barrier_out") {
    throw FenceTimeout("not all ranks came to the PMI server's barrier");
  }
}

std::optional<std::string> PmiSession::get(int rank, const std::string& key) { return get_text(key_of(rank, key)); }

}  // namespace mn::launcher

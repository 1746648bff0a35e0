// The live part of mnlaunch --doctor: do messages arrive, are sums right, how fast are the ways between the nodes?
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/job/job.hpp>

#include "selftest/gpu.hpp"

namespace mn::selftest {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

/// A token passes all ranks and gathers their numbers on its way.
std::string test_ring(Communicator& comm) {
  std::vector<std::int64_t> token = {0};
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  if (comm.size() == 1) return "one rank only";
  if (comm.rank() != 0) comm.recv(token, previous);
  token[0] += comm.rank();
  comm.send(token, next);
  if (comm.rank() == 0) comm.recv(token, previous);
  const std::int64_t expected = std::int64_t{comm.size()} * (comm.size() - 1) / 2;
  return comm.rank() != 0 || token[0] == expected ? "passed" : "FAILED: the ring's sum is " + std::to_string(token[0]);
}

/// Sums of small integers, which floats hold exactly.
std::string test_allreduce(Communicator& comm) {
  const auto rank_sum = static_cast<float>(comm.size() * (comm.size() + 1) / 2);
  std::int32_t wrong = 0;
  for (const std::size_t count : {1UL, 1027UL, 1UL << 18}) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(i % 64) * static_cast<float>(comm.rank() + 1);
    comm.allreduce(values);
    for (std::size_t i = 0; i < count; ++i) wrong += values[i] != static_cast<float>(i % 64) * rank_sum;
  }
  std::vector<std::int32_t> total = {wrong};
  comm.allreduce(total);
  return total[0] == 0 ? "passed" : "FAILED: " + std::to_string(total[0]) + " wrong sums over all ranks";
}

/// Seconds of one way of a message between this rank and `other`, which calls this too.
double one_way_seconds(Communicator& comm, int other, std::size_t bytes, int times) {
  std::vector<std::byte> message(bytes);
  const auto ping_pong = [&](bool first) {
    if (first) comm.send(message, other);
    comm.recv(message, other);
    if (!first) comm.send(message, other);
  };
  const bool first = comm.rank() < other;
  ping_pong(first);  // connections are made on first use
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) ping_pong(first);
  return std::chrono::duration<double>(Clock::now() - start).count() / (2.0 * times);
}

/// First rank of each node; of more than 32 nodes an even sample.
std::vector<int> sampled_leaders(const Topology& topology) {
  constexpr int kMost = 32;
  std::vector<int> leaders;
  const int count = std::min(topology.inter_size, kMost);
  for (int i = 0; i < count; ++i) leaders.push_back(topology.ranks_of(i * topology.inter_size / count).front());
  return leaders;
}

/// Latency and bandwidth of each pair of nodes, one pair at a time. Complete on rank 0.
json test_pairs(Communicator& comm) {
  constexpr std::size_t kSmall = 8;
  constexpr std::size_t kLarge = 4 << 20;
  json mine = json::array();
  const auto leaders = sampled_leaders(comm.topology());
  for (std::size_t i = 0; i < leaders.size(); ++i) {
    for (std::size_t j = i + 1; j < leaders.size(); ++j) {
      comm.barrier();
      const bool is_first = comm.rank() == leaders[i];
      if (!is_first && comm.rank() != leaders[j]) continue;
      const int other = is_first ? leaders[j] : leaders[i];
      const double latency = one_way_seconds(comm, other, kSmall, 50);
      const double seconds = one_way_seconds(comm, other, kLarge, 3);
      if (!is_first) continue;
      const auto& hosts = comm.topology().hosts;
      mine.push_back({{"from", hosts[static_cast<std::size_t>(comm.rank())]},
                      {"to", hosts[static_cast<std::size_t>(other)]},
                      {"latency_us", latency * 1e6},
                      {"bandwidth_mb_s", static_cast<double>(kLarge) / seconds / 1e6}});
    }
  }
  json all = json::array();
  for (const auto& part : comm.gather_obj(mine)) all.insert(all.end(), part.begin(), part.end());
  return all;
}

bool has_errors(const json& report) {
  for (const auto& finding : report.at("findings")) {
    if (finding.at("severity") == "error") return true;
  }
  for (const auto& [name, result] : report.at("self_test").items()) {
    if (result.is_string() && result.get<std::string>().starts_with("FAILED")) return true;
  }
  return false;
}

void print_text(const json& report) {
  std::printf("%-6s %-20s %-6s %-6s %s\n", "rank", "host", "intra", "inter", "device");
  for (const auto& row : report.at("placement")) {
    std::printf("%-6d %-20s %-6d %-6d %s\n", row.at("rank").get<int>(), row.at("host").get<std::string>().c_str(),
                row.at("intra_rank").get<int>(), row.at("inter_rank").get<int>(),
                row.at("device").get<std::string>().c_str());
  }
  std::printf("\nchecks: %s\n", report.at("findings").empty() ? "nothing found" : "");
  for (const auto& finding : report.at("findings")) {
    std::string hosts;
    for (const auto& host : finding.at("hosts")) hosts += " " + host.get<std::string>();
    std::printf("  %s [%s]%s: %s; %s\n", finding.at("severity").get<std::string>().c_str(),
                finding.at("check").get<std::string>().c_str(), hosts.c_str(),
                finding.at("what").get<std::string>().c_str(), finding.at("remedy").get<std::string>().c_str());
  }
  std::printf("\nself test:\n");
  for (const auto& [name, result] : report.at("self_test").items()) {
    if (result.is_string()) std::printf("  %-18s %s\n", name.c_str(), result.get<std::string>().c_str());
  }
  for (const auto& pair : report.at("self_test").at("pairs")) {
    std::printf("  %s - %s: %.1f us, %.0f MB/s\n", pair.at("from").get<std::string>().c_str(),
                pair.at("to").get<std::string>().c_str(), pair.at("latency_us").get<double>(),
                pair.at("bandwidth_mb_s").get<double>());
  }
}

json placement_of(const Communicator& comm) {
  json rows = json::array();
  const auto& topology = comm.topology();
  std::vector<int> used(static_cast<std::size_t>(topology.inter_size), 0);
  for (int rank = 0; rank < comm.size(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const int node = topology.nodes[r];
    rows.push_back({{"rank", rank},
                    {"host", topology.hosts[r]},
                    {"intra_rank", used[static_cast<std::size_t>(node)]++},
                    {"inter_rank", node},
                    {"device", ""}});
  }
  return rows;
}

int run(bool as_json) {
  const auto comm = create_communicator("flat");
  json tests = {{"ring", test_ring(*comm)}, {"allreduce", test_allreduce(*comm)}};
  tests["pairs"] = test_pairs(*comm);
  tests["cuda_aware_mpi"] = comm->rank() == 0 ? probe_cuda_aware(comm->device()) : "";
  tests["nccl_allreduce"] = test_nccl(*comm);
  int failed = 0;
  if (comm->rank() == 0) {
    // mnlaunch hands its findings over; alone, the self test reports what MPI sees.
    json report = parse_json(environment("MN_DOCTOR_REPORT").value_or("{}"), "MN_DOCTOR_REPORT");
    if (!report.contains("findings")) report["findings"] = json::array();
    if (!report.contains("placement")) report["placement"] = placement_of(*comm);
    report["self_test"] = tests;
    failed = has_errors(report) ? 1 : 0;
    report["healthy"] = failed == 0;
    if (as_json) {
      std::cout << report.dump(2) << "\n";
    } else {
      print_text(report);
      std::printf("\n%s\n", failed == 0 ? "all is well" : "something is wrong: see above");
    }
  }
  return std::stoi(comm->bcast_obj(std::to_string(failed)));
}

}  // namespace
}  // namespace mn::selftest

int main(int argc, char** argv) {
  const auto has = [&](const char* option) {
    for (int i = 1; i < argc; ++i) {
      if (std::strcmp(argv[i], option) == 0) return true;
    }
    return false;
  };
  if (has("--cuda-probe")) return mn::selftest::run_cuda_probe(argc, argv);
  const bool as_json = has("--json");
  return mn::run_job(argc, argv, [&](mn::Job&) { return mn::selftest::run(as_json); });
}

/// Jobs with threads as ranks, connected over loopback: all of mnlaunch's work between start and exec, except a look at
/// the machine. The facts are made up.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mn/core/error.hpp>

#include "healthy.hpp"
#include "launcher/rounds/agree.hpp"
#include "launcher/rounds/arrive.hpp"
#include "launcher/rounds/compare.hpp"

namespace mn::launcher::simulated {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How a rank's mnlaunch ends.
struct Ending {
  int exit_code = 0;
  std::string text;  ///< what it printed
  Clock::time_point at;
};

struct Job {
  std::string name;
  std::vector<int> nodes;  ///< [ranks] node of each
  milliseconds patience{20000};
  std::function<NodeFacts(int node)> node_facts = healthy_node;
  std::function<RankFacts(int rank)> rank_facts;
  std::function<void(int rank)> prepare = [](int) {};  ///< the rank's own part of the start; may throw
  std::function<std::shared_ptr<Keys>()> keys;         ///< between nodes; unset: one made of the name
  /// The launcher's variables for the rank; unset: nodes and positions as in `nodes`.
  std::function<Placement(int rank)> placement;

  [[nodiscard]] int size() const { return static_cast<int>(nodes.size()); }
  [[nodiscard]] int node_count() const { return 1 + *std::max_element(nodes.begin(), nodes.end()); }
  [[nodiscard]] int node_of(int rank) const { return nodes[static_cast<std::size_t>(rank)]; }
};

/// Ranks in blocks, `counts[n]` on node n.
inline std::vector<int> in_blocks(const std::vector<int>& counts) {
  std::vector<int> nodes;
  for (std::size_t node = 0; node < counts.size(); ++node) {
    nodes.insert(nodes.end(), static_cast<std::size_t>(counts[node]), static_cast<int>(node));
  }
  return nodes;
}

inline std::vector<int> in_turn(int ranks, int nodes) {
  std::vector<int> of_rank;
  for (int rank = 0; rank < ranks; ++rank) of_rank.push_back(rank % nodes);
  return of_rank;
}

/// Where `job.placement` says.
inline void move_to(Group& group, const Placement& here) {
  group.node = here.inter_rank;
  group.nodes = here.inter_size;
  group.intra_rank = here.intra_rank;
  group.intra_size = here.intra_size;
  group.hosts = here.hosts;
}

inline Group group_of(const Job& job, int rank) {
  Group group;
  group.job = job.name;
  group.node = job.node_of(rank);
  group.nodes = job.node_count();
  group.intra_size = 0;
  for (int other = 0; other < job.size(); ++other) {
    if (job.node_of(other) != group.node) continue;
    if (other < rank) ++group.intra_rank;
    ++group.intra_size;
  }
  group.hosts.clear();
  for (int node = 0; node < group.nodes; ++node) group.hosts.push_back("vn" + std::to_string(node + 1));
  group.addresses = [](int) { return std::vector<std::string>{"127.0.0.1"}; };
  group.keys = job.keys ? job.keys() : std::make_shared<SharedKey>(key_of_text(job.name));
  group.patience = job.patience;
  if (job.placement) move_to(group, job.placement(rank));
  return group;
}

inline Placement placement_of(const Job& job, const Group& group, int rank) {
  if (job.placement) return job.placement(rank);
  Placement here;
  here.rank = rank;
  here.size = job.size();
  here.intra_rank = group.intra_rank;
  here.intra_size = group.intra_size;
  here.inter_rank = group.node;
  here.inter_size = group.nodes;
  here.launcher = Launcher::kPmix;
  here.job = job.name;
  here.source = "simulation";
  here.hosts = group.hosts;
  return here;
}

/// The rounds of a rank, up to exec of the program.
inline Verdict rounds_of(const Job& job, const ThisRank& rank, Exchange& exchange) {
  const auto describe = [&](Arrival& own) {
    if (rank.here.rank == 0) own.master_port = 20000;
  };
  const Roster roster = arrive(exchange, rank, true, describe);
  if (roster.share.verdict.exit_code != 0) return roster.share.verdict;
  const FactSources sources{.of_rank = [&] { return job.rank_facts(rank.here.rank); },
                            .of_node = [&] { return job.node_facts(exchange.group().node); }};
  const Outcome outcome = compare_nodes(exchange, rank, roster, sources);
  if (outcome.verdict.exit_code != 0) return outcome.verdict;
  Verdict verdict = agree(exchange, rank.here, roster, [&] { job.prepare(rank.here.rank); });
  verdict.complaints = outcome.verdict.complaints + verdict.complaints;
  return verdict;
}

inline Ending end_of(const Job& job, int rank, const Options& options = {}) {
  Ending ending;
  try {
    Group group = group_of(job, rank);
    group.ports = options.ports;
    ThisRank self{.options = options, .surroundings = {}, .program_exit = 0, .here = placement_of(job, group, rank)};
    Exchange exchange(std::move(group));
    const Verdict verdict = rounds_of(job, self, exchange);
    ending.text = verdict.output + verdict.complaints;
    ending.exit_code = verdict.exit_code;
    if (verdict.exit_code != 0) exchange.leave();
  } catch (const Error& error) {
    ending.exit_code = error.exit_code();
    ending.text = error.what();
  }
  ending.at = Clock::now();
  return ending;
}

/// Runs ranks [first, last) of the job; `run` may do something else in place of a rank.
inline std::vector<Ending> run(int first, int last, const std::function<Ending(int rank)>& run_rank) {
  std::vector<Ending> endings(static_cast<std::size_t>(last - first));
  std::vector<std::thread> threads;
  for (int rank = first; rank < last; ++rank) {
    threads.emplace_back([&, rank] { endings[static_cast<std::size_t>(rank - first)] = run_rank(rank); });
  }
  for (auto& thread : threads) thread.join();
  return endings;
}

inline std::vector<Ending> run(const Job& job) {
  return run(0, job.size(), [&](int rank) { return end_of(job, rank); });
}

}  // namespace mn::launcher::simulated

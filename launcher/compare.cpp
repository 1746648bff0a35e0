// Three fences:
//
//   put before                                            got after
//   1. leaders: address, port (rank 0: MASTER_PORT too)   leaders: those of two neighbors
//   2. ranks: their facts; leaders: their node's          all: the facts of their node's ranks; rank 0: all facts
//   3. rank 0: its verdict                                all: the verdict
//
// Invariants:
// 1. The first rank of a node, its leader, reports the node. Jobs of one node have no first fence.
// 2. All ranks of a node compute the same bindings from the same facts.
// 3. All ranks read the clock after the same fence.
// 4. Each node is tried by another one, and all but rank 0's try rank 0's.
//
// Cost: exchange.hpp.
#include "compare.hpp"

#include <chrono>
#include <optional>

#include <unistd.h>

#include <mn/core/environment.hpp>

#include "exchange.hpp"
#include "facts/addresses.hpp"
#include "facts/collect.hpp"
#include "facts/network.hpp"
#include "facts/output_folder.hpp"
#include "node_share.hpp"

namespace mn::launcher {
namespace {

constexpr std::chrono::milliseconds kConnectPatience{2000};
constexpr const char* kHello = "hello";
constexpr const char* kRank = "rank";
constexpr const char* kNode = "node";
constexpr const char* kVerdict = "verdict";

class Comparison {
 public:
  Comparison(PmixSession& session, const ThisRank& rank)
      : rank_(rank), here_(rank.here), exchange_(session, rank.here) {}

  Outcome run() {
    put_hello();
    if (here_.inter_size > 1) exchange_.fence();
    put_facts();
    exchange_.fence();
    Outcome outcome;
    if (here_.rank == 0) {
      outcome.verdict = decide_for_all();
      exchange_.put(kVerdict, VerdictFacts{outcome.verdict.exit_code});
    }
    exchange_.fence();
    outcome.exit_code = exchange_.get<VerdictFacts>(0, kVerdict).exit_code;
    take_share(outcome);
    outcome.master = master();
    return outcome;
  }

 private:
  void put_hello() {
    if (!rank_.is_leader()) return;
    listener_.emplace();
    hello_.network = collect_network_facts(host_name());
    hello_.port = listener_->port();
    if (here_.rank == 0) hello_.master_port = free_port_of_job(here_.job, is_free_port);
    if (here_.rank == 0 && rank_.is_compared() && here_.inter_size > 1) {
      marker_.emplace(output_folder(rank_.surroundings), std::to_string(getpid()) + "-" + std::to_string(hello_.port));
      hello_.marker = marker_->name();
    }
    exchange_.put(kHello, hello_);
  }

  void put_facts() {
    const double time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    exchange_.put(kRank, collect_rank_facts(here_, rank_.surroundings));
    if (rank_.is_leader()) exchange_.put(kNode, facts_of_node(time));
  }

  NodeFacts facts_of_node(double time) {
    NodeFacts facts = collect_node_facts(here_, rank_.surroundings, rank_.is_compared());
    facts.time = time;
    facts.network = hello_.network;
    if (here_.inter_size > 1 && rank_.is_compared()) {
      facts.network->failures = failed_connections(neighbors(), kConnectPatience);
      const std::string marker = exchange_.get<HelloFacts>(0, kHello).marker;
      if (!marker.empty()) {
        facts.system.output.shared = std::filesystem::exists(output_folder(rank_.surroundings) / marker);
      }
    }
    limit_size(facts);
    return facts;
  }

  /// Rank 0's node, where all must connect to, and the next one.
  [[nodiscard]] std::vector<Neighbor> neighbors() const {
    std::vector<int> nodes = {0};
    const int next = (here_.inter_rank + 1) % here_.inter_size;
    if (next != 0) nodes.push_back(next);
    std::vector<Neighbor> others;
    for (const int node : nodes) {
      if (node == here_.inter_rank) continue;
      const auto hello = exchange_.get<HelloFacts>(here_.layout->ranks_of(node).front(), kHello);
      others.push_back(
          {here_.layout->hosts[static_cast<std::size_t>(node)], hello.network.address.value_or(""), hello.port});
    }
    return others;
  }

  [[nodiscard]] NodeShare share_of_node(int node) const {
    const auto ranks = here_.layout->ranks_of(node);
    NodeShare share;
    share.node = exchange_.get<NodeFacts>(ranks.front(), kNode);
    for (const int rank : ranks) share.ranks.push_back(exchange_.get<RankFacts>(rank, kRank));
    bind(share, rank_.binding_options());
    return share;
  }

  void take_share(Outcome& outcome) const {
    const NodeShare share = share_of_node(here_.inter_rank);
    const auto me = static_cast<std::size_t>(here_.intra_rank);
    outcome.binding = share.bindings[me];
    outcome.gpus = share.ranks[me].resources.gpus;
  }

  [[nodiscard]] Verdict decide_for_all() const {
    JobFacts job;
    job.launcher = here_.launcher;
    job.layout = *here_.layout;
    job.gpu_sharing_is_meant = rank_.options.oversubscribe_gpu;
    job.ranks.resize(here_.layout->nodes.size());
    for (int node = 0; node < here_.inter_size; ++node) {
      NodeShare share = share_of_node(node);
      const auto ranks = here_.layout->ranks_of(node);
      for (std::size_t i = 0; i < ranks.size(); ++i) job.ranks[static_cast<std::size_t>(ranks[i])] = share.ranks[i];
      job.nodes.push_back(std::move(share.node));
      job.bindings.push_back(std::move(share.bindings));
    }
    return decide(job, rank_.options, here_, rank_.program_exit);
  }

  [[nodiscard]] Master master() const {
    const auto first = exchange_.get<HelloFacts>(0, kHello);
    return {.address = here_.inter_size == 1 ? "127.0.0.1" : first.network.address.value_or(""),
            .port = first.master_port.value_or(port_of_job(here_.job))};
  }

  const ThisRank& rank_;
  const Placement& here_;
  Exchange exchange_;
  HelloFacts hello_;                  ///< this node's; a leader's
  std::optional<Listener> listener_;  ///< until all nodes have tried it
  std::optional<Marker> marker_;      ///< until all nodes have looked for it
};

}  // namespace

Outcome compare_nodes(PmixSession& session, const ThisRank& rank) { return Comparison(session, rank).run(); }

}  // namespace mn::launcher

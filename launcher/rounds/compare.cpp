#include "rounds/compare.hpp"

#include <algorithm>
#include <filesystem>

#include <mn/core/unix_time.hpp>

#include "exchange/group.hpp"
#include "facts/collect.hpp"
#include "facts/surroundings.hpp"
#include "rounds/agree.hpp"
#include "rounds/roster.hpp"

namespace mn::launcher {
namespace {

constexpr std::chrono::milliseconds kConnectPatience{2000};

void bind(NodeReport& report, const BindingOptions& options) {
  std::vector<RankResources> resources;
  for (const auto& rank : report.ranks) resources.push_back(rank.resources);
  report.bindings = bind_ranks(report.node.machine, resources, options);
  // The checks must judge the CPUs on which the rank will really run.
  for (std::size_t i = 0; i < std::min(options.cpu_map.size(), report.ranks.size()); ++i) {
    report.ranks[i].resources.mask = options.cpu_map[i];
  }
}

class Comparison {
 public:
  Comparison(Exchange& exchange, const ThisRank& rank, const Roster& roster, const FactSources& sources)
      : exchange_(exchange), rank_(rank), roster_(roster), sources_(sources) {}

  Outcome run() {
    // Invariant 1: reads the clock before the facts are collected, which may take seconds.
    const double time = unix_time();
    RankReport own;
    own.failure = failure_of(here_, [&] {
      own.facts = sources_.of_rank();
      if (group_.is_leader()) report_.node = facts_of_node(time);
    });
    const Exchange::Steps steps{
        .combine = [this](const Parts& parts) { return to_message(combine(parts)); },
        .decide = [this](Parts reports) { return decide(std::move(reports)); },
        .split = [this](const std::string& answer, int local) { return to_message(share_of(answer, local)); }};
    const auto share = from_message<VerdictShare>(exchange_.round(to_message(own), steps), "the verdict");
    Outcome outcome{.master = roster_.share.master, .binding = share.binding, .gpus = {}, .verdict = share.verdict};
    if (own.facts) outcome.gpus = own.facts->resources.gpus;
    return outcome;
  }

 private:
  NodeFacts facts_of_node(double time) {
    NodeFacts facts = sources_.of_node();
    facts.time = time;
    if (facts.network && group_.nodes > 1 && rank_.is_compared()) {
      facts.network->failures = failed_connections();
      const auto& marker = roster_.start.marker;
      if (!marker.empty()) {
        facts.system.output.shared = std::filesystem::exists(output_folder(rank_.surroundings) / marker);
      }
    }
    limit_size(facts);
    return facts;
  }

  [[nodiscard]] std::vector<std::string> failed_connections() const {
    std::vector<std::string> failures;
    std::vector<int> nodes;
    std::vector<Endpoint> endpoints;
    const auto add = [&](int node, const std::string& address) {
      const int port = roster_.start.ports.at(static_cast<std::size_t>(node));
      if (port == 0) return;  // the node could not listen: other processes have its ports
      nodes.push_back(node);
      endpoints.push_back({address, static_cast<std::uint16_t>(port)});
    };
    // Invariant 2 (compare.hpp): the exchange itself uses the connection to the parent node.
    for (const int child : kNodeTree.children_of(group_.node, group_.nodes)) {
      const auto addresses = group_.addresses(child);
      if (!addresses.empty()) add(child, addresses.front());
    }
    const int master = roster_.start.master_node;
    const bool is_near_root = group_.node > 0 && kNodeTree.parent_of(group_.node) == 0 && group_.node != master;
    const std::string& failure = exchange_.failure_of_calls();
    const auto name = [&](int node) { return "no TCP connection to " + group_.hosts[static_cast<std::size_t>(node)]; };
    if (!failure.empty()) {
      failures.push_back(name(kNodeTree.parent_of(group_.node)) + " (" + failure + ")");
    } else if (is_near_root) {
      add(master, roster_.start.master_address);
    }
    const auto reasons = probe(endpoints, kConnectPatience);
    for (std::size_t i = 0; i < reasons.size(); ++i) {
      if (!reasons[i].empty()) failures.push_back(name(nodes[i]) + " (" + to_text(endpoints[i]) + "): " + reasons[i]);
    }
    return failures;
  }

  const NodeReport& combine(const Parts& parts) {
    if (auto failure = failure_of(here_, [&] { fill(parts); })) report_.failures.push_back(std::move(*failure));
    return report_;
  }

  void fill(const Parts& parts) {
    std::vector<std::pair<int, RankFacts>> facts;
    for (std::size_t local = 0; local < parts.size(); ++local) {
      if (!parts[local].bytes) {
        note_absence(report_.absence, parts[local], roster_.ranks_here[local]);
        continue;
      }
      const int rank = roster_.ranks_here[local];
      auto one = from_message<RankReport>(*parts[local].bytes, "the facts of rank " + std::to_string(rank));
      if (one.failure) report_.failures.push_back(*one.failure);
      if (one.facts) facts.emplace_back(rank, std::move(*one.facts));
    }
    if (facts.size() < parts.size()) return;
    // The facts come in the launcher's order, but bindings need the order of ranks.
    std::ranges::sort(facts, {}, &std::pair<int, RankFacts>::first);
    for (auto& [rank, of_rank] : facts) report_.ranks.push_back(std::move(of_rank));
    bind(report_, rank_.binding_options());
    // Invariant 1: the second reading of the clock.
    report_.sent_at = unix_time();
  }

  std::string decide(Parts reports) {
    Decision& decision = decision_.emplace();
    if (auto failure = failure_of(here_, [&] { decision.verdict = verdict_about(std::move(reports)); })) {
      decision.verdict = verdict_of({std::move(*failure)});
    }
    decision.speaker = roster_.speaker(missing_);
    // If the speaker is on the root's node, no message carries the text, which may be long.
    Decision sent = decision;
    const bool is_here = std::ranges::find(roster_.ranks_here, decision.speaker) != roster_.ranks_here.end();
    if (is_here) sent.verdict = without_text(sent.verdict);
    return to_message(sent);
  }

  Verdict verdict_about(Parts reports) {
    JobFacts job{.launcher = here_.launcher,
                 .layout = roster_.layout,
                 .numbers = roster_.numbers,
                 .nodes = std::vector<NodeFacts>(reports.size()),
                 .ranks = std::vector<RankFacts>(roster_.layout.nodes.size()),
                 .bindings = std::vector<std::vector<Binding>>(reports.size()),
                 .gpu_sharing_is_meant = rank_.options.oversubscribe_gpu,
                 .skip = rank_.options.skip,
                 .warn = rank_.options.warn};
    std::vector<Failure> failures;
    const double now = unix_time();
    for (std::size_t node = 0; node < reports.size(); ++node) {
      const std::string& host = roster_.hosts[node];
      if (!reports[node].bytes) {
        missing_.note(host, reports[node], roster_.ranks_of(node));
        continue;
      }
      auto report = from_message<NodeReport>(*reports[node].bytes, "the facts of " + host);
      // The bytes of a thousand reports would double the needed memory.
      reports[node].bytes.reset();
      missing_.note(host, report.absence);
      failures.insert(failures.end(), report.failures.begin(), report.failures.end());
      if (report.ranks.empty()) continue;
      report.node.time = time_without_latency(report, now);
      add(job, job.numbers.empty() ? roster_.start.inter_ranks[node] : 0, std::move(report));
    }
    // Failures are judged before missing ranks: a failure may be the reason why a rank is missing.
    if (!failures.empty()) return verdict_of(failures);
    const Findings findings = missing_.findings(here_.size, group_.patience);
    if (!findings.empty()) return reject(findings, rank_.options);
    return launcher::decide(job, rank_.options, here_, rank_.program_exit);
  }

  /// The node's clock at the time `answered_at` of the root's clock, as far as the readings prove a difference.
  [[nodiscard]] double time_without_latency(const NodeReport& report, double now) const {
    const double begin = roster_.answered_at;
    // Invariant 1: a message never arrives early, so the readings prove the least lag and the least lead.
    const double behind = std::min(report.node.time.value_or(begin) - begin, 0.0);
    const double ahead = std::max(report.sent_at - now, 0.0);
    return begin + behind + ahead;
  }

  static void add(JobFacts& job, int node, NodeReport report) {
    const auto ranks = job.layout.ranks_of(node);
    for (std::size_t i = 0; i < ranks.size() && i < report.ranks.size(); ++i) {
      job.ranks[static_cast<std::size_t>(ranks[i])] = std::move(report.ranks[i]);
    }
    job.nodes[static_cast<std::size_t>(node)] = std::move(report.node);
    job.bindings[static_cast<std::size_t>(node)] = std::move(report.bindings);
  }

  VerdictShare share_of(const std::string& answer, int local) {
    const int rank = roster_.ranks_here[static_cast<std::size_t>(local)];
    const auto position = std::ranges::count_if(roster_.ranks_here, [&](int other) { return other < rank; });
    // Leaders except the root parse the decision, once for all ranks of the node.
    if (!decision_) decision_ = from_message<Decision>(answer, "the root's decision");
    const Verdict& verdict = decision_->verdict;
    VerdictShare share{.verdict = rank == decision_->speaker ? verdict : without_text(verdict), .binding = {}};
    if (!report_.bindings.empty()) share.binding = report_.bindings[static_cast<std::size_t>(position)];
    return share;
  }

  Exchange& exchange_;
  const Group& group_ = exchange_.group();
  const ThisRank& rank_;
  const Placement& here_ = rank_.here;
  const Roster& roster_;
  const FactSources& sources_;
  NodeReport report_;     ///< on leaders
  MissingRanks missing_;  ///< on the root
  std::optional<Decision> decision_;
};

}  // namespace

FactSources facts_of_this_machine(const ThisRank& rank) {
  const auto of_node = [&rank] {
    NodeFacts facts = collect_node_facts(rank.here, rank.surroundings, rank.is_compared());
    facts.network = collect_network_facts();
    return facts;
  };
  return {.of_rank = [&rank] { return collect_rank_facts(rank.here, rank.surroundings); }, .of_node = of_node};
}

Outcome compare_nodes(Exchange& exchange, const ThisRank& rank, const Roster& roster, const FactSources& sources) {
  return Comparison(exchange, rank, roster, sources).run();
}

}  // namespace mn::launcher

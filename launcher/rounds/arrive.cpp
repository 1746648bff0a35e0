#include "rounds/arrive.hpp"

#include <algorithm>
#include <cassert>
#include <map>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/net/interfaces.hpp>
#include <mn/core/unix_time.hpp>

#include "place/slurm.hpp"
#include "rounds/agree.hpp"
#include "rounds/rendezvous.hpp"
#include "rounds/verdict.hpp"

namespace mn::launcher {
namespace {

/// Returns how a rank's `options` differ from `of_first`, the options of the rank `first`.
std::string difference(const std::vector<std::string>& options, int first, const std::vector<std::string>& of_first) {
  const auto lacks = [](const auto& words, const std::string& word) {
    return std::ranges::find(words, word) == words.end();
  };
  const std::string rank = "rank " + std::to_string(first);
  std::string what = "its options come in another order than those of " + rank;
  for (const auto& word : of_first) {
    if (lacks(options, word)) what = "it does not have " + word + ", as " + rank + " does";
  }
  for (const auto& word : options) {
    if (lacks(of_first, word)) what = "it has " + word + ", and " + rank + " does not";
  }
  return what + "; give all ranks the same options, by one command, MNLAUNCH_OPTIONS and mnlaunch.conf";
}

class ArrivalRound {
 public:
  ArrivalRound(Exchange& exchange, const ThisRank& rank, bool is_whole)
      : exchange_(exchange), group_(exchange.group()), rank_(rank), here_(rank.here), is_whole_(is_whole) {}

  Roster run(const std::function<void(Arrival&)>& prepare) {
    Arrival own;
    own.failure = failure_of(here_, [&] {
      if (!exchange_.failure_to_listen().empty()) throw CheckFailed(exchange_.failure_to_listen());
      prepare(own);
    });
    own.rank = here_.rank;
    own.intra_size = here_.intra_size;
    own.options = words_of_all_ranks(rank_.options);
    const Exchange::Steps steps{
        .combine = [this](const Parts& parts) { return to_message(combine(parts)); },
        .decide =
            [this](const Parts& reports) {
              if (const auto failure = failure_of(here_, [&] { decide(reports); })) {
                roster_.start = ArrivalAnswer();
                roster_.start.verdict = verdict_of({*failure});
              }
              has_start_ = true;
              roster_.answered_at = unix_time();
              return to_message(roster_.start);
            },
        .split = [this](const std::string& answer, int local) { return to_message(share_of(answer, local)); }};
    const std::string share = exchange_.round(to_message(own), steps);
    roster_.share = from_message<ArrivalShare>(share, "the answer to this rank's arrival");
    return std::move(roster_);
  }

 private:
  NodeArrival combine(const Parts& parts) {
    NodeArrival node;
    node.host = here_.hosts.empty() ? host_name() : here_.hosts[static_cast<std::size_t>(here_.inter_rank)];
    for (const auto& part : parts) {
      // Missing ranks have an entry, too. Entries are sorted by the launcher's numbers of the ranks on this node.
      roster_.ranks_here.push_back(kNobody);
      const bool is_extra = roster_.ranks_here.size() > static_cast<std::size_t>(group_.intra_size);
      if (!part.bytes && !is_extra) {
        note_absence(node.absence, part, kNobody);
        continue;
      }
      Arrival& arrival = node.ranks.emplace_back();
      if (part.bytes) arrival = from_message<Arrival>(*part.bytes, "the arrival of a rank of this node");
      if (!is_extra) arrival.position = static_cast<int>(roster_.ranks_here.size()) - 1;
      roster_.ranks_here.back() = arrival.rank;
    }
    has_second_job_ = is_twice(roster_.ranks_here);
    for (auto& arrival : node.ranks) {
      if (arrival.rank >= 0 && !arrival.failure && arrival.intra_size != here_.intra_size) {
        arrival.failure = miscounted(arrival);
      }
      // A leader with a wrong position stands in for the first rank, which then comes uninvited: no duplicate.
      const bool stands_in = !here_.error.empty();
      if (!arrival.position && !arrival.failure && !stands_in) arrival.failure = doubled(arrival.rank);
    }
    if (group_.nodes > 1) node.address = own_address(routed_interfaces(), addresses_of_own_name());
    node.port = exchange_.port();
    return node;
  }

  /// Whether each rank of the node has come twice: first all invited ranks, then uninvited ranks with the same numbers.
  [[nodiscard]] bool is_twice(const std::vector<int>& ranks) const {
    const auto size = static_cast<std::ptrdiff_t>(group_.intra_size);
    return std::ssize(ranks) == 2 * size &&
           std::is_permutation(ranks.begin(), ranks.begin() + size, ranks.begin() + size);
  }

  [[nodiscard]] Failure doubled(int rank) const {
    const std::string job = "another job of this name runs on this node at once; ";
    const std::string one =
        "another process of this node has the same number; start mnlaunch once for each rank, directly under its "
        "launcher, unset what other launchers left, and ";
    return {rank, host_name(), kExitCheckFailed, (has_second_job_ ? job : one) + kNameJobs};
  }

  [[nodiscard]] Failure miscounted(const Arrival& arrival) const {
    const std::string counts = "it counts " + std::to_string(arrival.intra_size) + " ranks on this node, and rank " +
                               std::to_string(here_.rank) + " " + std::to_string(here_.intra_size);
    return {arrival.rank, host_name(), kExitCheckFailed,
            counts + "; start mnlaunch directly under its launcher, which tells all of them alike"};
  }

  void decide(const Parts& reports) {
    ArrivalAnswer& start = roster_.start;
    std::vector<NodeArrival> nodes;
    std::vector<Failure> failures;
    MissingRanks missing;
    for (std::size_t i = 0; i < reports.size(); ++i) {
      nodes.emplace_back().host = group_.hosts[i];
      if (reports[i].absence == Part::Absence::kWeak) {
        failures.push_back({kNobody, nodes[i].host, kExitCheckFailed,
                            "it cannot prove that it is of this job: " + reports[i].why_weak});
      }
      if (!reports[i].bytes) {
        missing.note(nodes[i].host, reports[i], {});
        continue;
      }
      nodes[i] = from_message<NodeArrival>(*reports[i].bytes, "the arrival of " + group_.hosts[i]);
      missing.note(nodes[i].host, nodes[i].absence);
      for (const auto& arrival : nodes[i].ranks) {
        arrived_.emplace(arrival.rank, std::pair(i, arrival));
        if (arrival.failure) failures.push_back(*arrival.failure);
      }
    }
    for (const auto& node : nodes) roster_.hosts.push_back(node.host);
    const int speaker = choose_speaker();
    if (failures.empty()) failures = other_options(speaker);
    if (!failures.empty()) {
      start.verdict = verdict_of(failures, here_.size);
    } else if (const Findings findings = findings_of(missing); !findings.empty()) {
      start.verdict = reject(findings, rank_.options);
    } else {
      number();
      describe(nodes);
    }
  }

  /// Chooses the lowest rank that was invited and has arrived. If none has a valid number, the root speaks.
  int choose_speaker() {
    for (auto it = arrived_.lower_bound(0); it != arrived_.end(); ++it) {
      const auto& [node, arrival] = it->second;
      if (!arrival.position) continue;
      roster_.start.speaker_node = static_cast<int>(node);
      roster_.start.speaker_position = *arrival.position;
      return it->first;
    }
    return here_.rank;
  }

  [[nodiscard]] std::vector<Failure> other_options(int first) const {
    const auto& of_first = arrived_.find(first)->second.second.options;
    std::vector<Failure> failures;
    for (const auto& [rank, each] : arrived_) {
      const auto& options = each.second.options;
      if (options == of_first) continue;
      failures.push_back({rank, roster_.hosts[each.first], kExitUsage, difference(options, first, of_first)});
    }
    return failures;
  }

  [[nodiscard]] Findings findings_of(const MissingRanks& missing) const {
    std::map<int, std::vector<std::string>> hosts;
    for (const auto& [rank, each] : arrived_) hosts[rank].push_back(roster_.hosts[each.first]);
    std::vector<int> absent;
    for (int rank = 0; is_whole_ && rank < here_.size; ++rank) {
      if (!hosts.contains(rank)) absent.push_back(rank);
    }
    Findings findings;
    for (const auto& [rank, of_rank] : hosts) {
      if (of_rank.size() > 1) findings.push_back(doubled_rank(of_rank, rank));
    }
    // Duplicates are reported first: a rank that comes twice may have taken the number of a missing rank.
    if (findings.empty()) findings = missing.findings(here_.size, group_.patience, absent);
    if (findings.empty() && !absent.empty()) findings.push_back(late_ranks({}, absent, here_.size, group_.patience));
    return findings;
  }

  void number() {
    std::vector<int> ids;
    std::vector<std::string> names;
    for (const auto& [rank, each] : arrived_) {
      ids.push_back(static_cast<int>(each.first));
      names.push_back(roster_.hosts[each.first]);
      if (!is_whole_) roster_.numbers.push_back(rank);
    }
    assert(is_whole_ == roster_.numbers.empty());
    roster_.layout = make_layout(ids, names);
    roster_.start.inter_ranks.resize(roster_.hosts.size());
    for (std::size_t rank = 0; rank < ids.size(); ++rank) {
      roster_.start.inter_ranks[static_cast<std::size_t>(ids[rank])] = roster_.layout.nodes[rank];
    }
  }

  void describe(const std::vector<NodeArrival>& nodes) {
    ArrivalAnswer& start = roster_.start;
    start.master_port = port_of_job(here_.job, rank_.options.ports);
    if (!is_whole_) {
      start.inter_size = here_.inter_size;
      start.inter_ranks = {here_.inter_rank};
      guess_master();
      return;
    }
    start.inter_size = static_cast<int>(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      start.ports.push_back(nodes[i].port);
      const auto zero = std::ranges::find(nodes[i].ranks, 0, &Arrival::rank);
      if (zero == nodes[i].ranks.end()) continue;
      start.master_node = static_cast<int>(i);
      start.master_address = start.inter_size == 1 ? "127.0.0.1" : nodes[i].address;
      start.master_port = zero->master_port.value_or(start.master_port);
      start.marker = zero->marker;
    }
  }

  /// Chooses a MASTER_ADDR for nodes that cannot exchange addresses: the exported address, else the first host of the
  /// allocation, where rank 0 usually runs. Stays empty if neither is known.
  void guess_master() {
    ArrivalAnswer& start = roster_.start;
    const Variables& variables = rank_.surroundings.variables;
    const bool has_rank_zero = std::ranges::find(roster_.ranks_here, 0) != roster_.ranks_here.end();
    if (variables.has("MASTER_ADDR")) {
      start.master_port = variables.number("MASTER_PORT").value_or(start.master_port);
    } else {
      const std::string first = first_host_of_allocation(variables);
      const bool is_here = is_own_host(first);
      if (is_here == has_rank_zero) start.master_address = first;
      if (has_rank_zero && !is_here) start.master_address = own_address(routed_interfaces(), addresses_of_own_name());
    }
    if (!has_rank_zero || is_free_port(start.master_port)) return;
    throw CommError("port " + std::to_string(start.master_port) + ", which all nodes take for MASTER_PORT, is in use " +
                    "here; export MASTER_ADDR and MASTER_PORT, or give other ports with --ports");
  }

  ArrivalShare share_of(const std::string& answer, int local) {
    // Leaders except the root parse the answer, once for all ranks of the node.
    if (!has_start_) roster_.start = from_message<ArrivalAnswer>(answer, "the answer to the nodes' arrival");
    has_start_ = true;
    const ArrivalAnswer& start = roster_.start;
    const int rank = roster_.ranks_here.at(static_cast<std::size_t>(local));
    ArrivalShare share;
    const Verdict& verdict = start.verdict;
    const bool is_speaker = group_.node == start.speaker_node && local == start.speaker_position;
    share.verdict = is_speaker || speaks_for_second_job(local) ? verdict : without_text(verdict);
    if (verdict.exit_code != 0) return share;  // the job does not start: the numbers are incomplete
    share.master = {start.master_address, start.master_port};
    const auto is_lower = [&](int other) { return other < rank; };
    share.numbers = {.intra_rank = static_cast<int>(std::ranges::count_if(roster_.ranks_here, is_lower)),
                     .intra_size = static_cast<int>(roster_.ranks_here.size()),
                     .inter_rank = start.inter_ranks.at(static_cast<std::size_t>(group_.node)),
                     .inter_size = start.inter_size};
    return share;
  }

  /// Whether the rank at `local` is the lowest rank of a second job on this node. If so, the rank prints the verdict
  /// for the second job.
  [[nodiscard]] bool speaks_for_second_job(int local) const {
    if (!has_second_job_ || local < group_.intra_size) return false;
    const auto lowest = std::min_element(roster_.ranks_here.begin() + group_.intra_size, roster_.ranks_here.end());
    return lowest - roster_.ranks_here.begin() == local;
  }

  Exchange& exchange_;
  const Group& group_;
  const ThisRank& rank_;
  const Placement& here_;
  const bool is_whole_;
  bool has_start_ = false;
  bool has_second_job_ = false;                                  ///< on leaders: each rank of the node came twice
  std::multimap<int, std::pair<std::size_t, Arrival>> arrived_;  ///< on the root: node and arrival of each rank
  Roster roster_;
};

}  // namespace

Roster arrive(Exchange& exchange, const ThisRank& rank, bool is_whole, const std::function<void(Arrival&)>& prepare) {
  return ArrivalRound(exchange, rank, is_whole).run(prepare);
}

}  // namespace mn::launcher

#include "rounds/agree.hpp"

#include <algorithm>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

#include "rounds/absence.hpp"

namespace mn::launcher {
namespace {

class Agreement {
 public:
  Agreement(Exchange& exchange, const Placement& here, const Roster& roster)
      : exchange_(exchange), here_(here), roster_(roster) {}

  Verdict run(const std::optional<Failure>& failure) {
    Readiness own;
    if (failure) own.failures.push_back(*failure);
    const Exchange::Steps steps{.combine = [this](const Parts& parts) { return to_message(combine(parts)); },
                                .decide = [this](const Parts& reports) { return decide(reports); },
                                .split =
                                    [this](const std::string& answer, int local) {
                                      const int rank = roster_.ranks_here.at(static_cast<std::size_t>(local));
                                      return to_message(Decision{announcement_.verdict_for(rank, answer), rank});
                                    }};
    return from_message<Decision>(exchange_.round(to_message(own), steps), "the last answer").verdict;
  }

 private:
  static void add(std::vector<Failure>& all, const Readiness& more) {
    all.insert(all.end(), more.failures.begin(), more.failures.end());
  }

  [[nodiscard]] Readiness combine(const Parts& parts) const {
    Readiness node;
    for (std::size_t local = 0; local < parts.size(); ++local) {
      if (parts[local].bytes) {
        add(node.failures, from_message<Readiness>(*parts[local].bytes, "the readiness of a rank of this node"));
      } else {
        note_absence(node.absence, parts[local], roster_.ranks_here[local]);
      }
    }
    return node;
  }

  std::string decide(const Parts& reports) {
    std::vector<Failure> failures;
    MissingRanks missing;
    for (std::size_t i = 0; i < reports.size(); ++i) {
      const std::string& host = roster_.hosts[i];
      if (!reports[i].bytes) {
        missing.note(host, reports[i], roster_.ranks_of(i));
        continue;
      }
      const auto node = from_message<Readiness>(*reports[i].bytes, "the readiness of " + host);
      missing.note(host, node.absence);
      add(failures, node);
    }
    const Findings findings = missing.findings(here_.size, exchange_.group().patience);
    Decision decision{.verdict = {}, .speaker = roster_.speaker(missing)};
    if (!failures.empty()) {
      // A failure that a rank reports comes before a rank that is missing: it may be why that is.
      decision.verdict = verdict_of(failures);
    } else if (!findings.empty()) {
      decision.verdict = reject(findings, {});
    }
    return announcement_.announce(std::move(decision), roster_.ranks_here);
  }

  Exchange& exchange_;
  const Placement& here_;
  const Roster& roster_;
  Announcement announcement_;
};

}  // namespace

std::optional<Failure> failure_of(const Placement& here, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return Failure{here.rank, host_name(), error.exit_code(), error.what()};
  }
  return std::nullopt;
}

Verdict verdict_of(const std::vector<Failure>& failures, int ranks) {
  // The same on every rank that computes it, whatever the order of the reports.
  const Failure& first = *std::ranges::min_element(failures, {}, &Failure::rank);
  const bool is_alike = std::ranges::all_of(failures, [&](const Failure& each) { return each.text == first.text; });
  const bool is_everyones = is_alike && first.rank == 0 && static_cast<int>(failures.size()) == ranks;
  const std::string rank = first.rank < 0 ? "a rank" : "rank " + std::to_string(first.rank);
  const std::string who = is_everyones ? "" : rank + " on " + first.host + ": ";
  Verdict verdict;
  verdict.exit_code = first.exit_code;
  verdict.complaints = "mnlaunch: " + who + first.text + "\n";
  return verdict;
}

Verdict without_text(const Verdict& verdict) {
  Verdict bare;
  bare.exit_code = verdict.exit_code;
  return bare;
}

std::string Announcement::announce(Decision decision, const std::vector<int>& ranks_here) {
  Decision sent = decision;
  const bool is_for_this_node = std::ranges::find(ranks_here, decision.speaker) != ranks_here.end();
  if (is_for_this_node) sent.verdict = without_text(sent.verdict);
  // Kept whole here; other nodes need the text only where the speaker is theirs.
  decision_ = std::move(decision);
  return to_message(sent);
}

Verdict Announcement::verdict_for(int rank, const std::string& answer) {
  if (!decision_) decision_ = from_message<Decision>(answer, "the root's decision");
  return rank == decision_->speaker ? decision_->verdict : without_text(decision_->verdict);
}

Verdict agree(Exchange& exchange, const Placement& here, const Roster& roster, const std::function<void()>& work) {
  return Agreement(exchange, here, roster).run(failure_of(here, work));
}

}  // namespace mn::launcher

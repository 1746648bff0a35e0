#include "rounds/agree.hpp"

#include <algorithm>
#include <cassert>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

namespace mn::launcher {
namespace {

Readiness combine(const Parts& parts, const std::vector<int>& ranks) {
  Readiness node;
  for (std::size_t local = 0; local < parts.size(); ++local) {
    if (!parts[local].bytes) {
      note_absence(node.absence, parts[local], ranks[local]);
      continue;
    }
    const auto one = from_message<Readiness>(*parts[local].bytes, "the readiness of a rank of this node");
    node.failures.insert(node.failures.end(), one.failures.begin(), one.failures.end());
  }
  return node;
}

Decision decide(const Parts& reports, const Roster& roster, int size, std::chrono::milliseconds patience) {
  std::vector<Failure> failures;
  MissingRanks missing;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const std::string& host = roster.hosts[i];
    if (!reports[i].bytes) {
      missing.note(host, reports[i], roster.ranks_of(i));
      continue;
    }
    const auto node = from_message<Readiness>(*reports[i].bytes, "the readiness of " + host);
    missing.note(host, node.absence);
    failures.insert(failures.end(), node.failures.begin(), node.failures.end());
  }
  const Findings findings = missing.findings(size, patience);
  Decision decision{.verdict = {}, .speaker = roster.speaker(missing)};
  // Failures are judged before missing ranks: a failure may be the reason why a rank is missing.
  if (!failures.empty()) {
    decision.verdict = verdict_of(failures);
  } else if (!findings.empty()) {
    decision.verdict = reject(findings, {});
  }
  return decision;
}

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
  assert(!failures.empty());
  const Failure& first = *std::ranges::min_element(failures, {}, &Failure::rank);
  const bool is_alike = std::ranges::all_of(failures, [&](const Failure& each) { return each.text == first.text; });
  const bool is_everyones = is_alike && first.rank == 0 && static_cast<int>(failures.size()) == ranks;
  const std::string rank = first.rank < 0 ? "a rank" : "rank " + std::to_string(first.rank);
  const std::string who = is_everyones ? "" : rank + " on " + first.host + ": ";
  return {
      .exit_code = first.exit_code, .output = "", .complaints = "mnlaunch: " + who + first.text + "\n", .report = ""};
}

Verdict without_text(const Verdict& verdict) {
  return {.exit_code = verdict.exit_code, .output = "", .complaints = "", .report = ""};
}

Verdict agree(Exchange& exchange, const Placement& here, const Roster& roster, const std::function<void()>& work) {
  Readiness own;
  if (const auto failure = failure_of(here, work)) own.failures.push_back(*failure);
  const Exchange::Steps steps{
      .combine = [&](const Parts& parts) { return to_message(combine(parts, roster.ranks_here)); },
      .decide =
          [&](const Parts& reports) {
            return to_message(decide(reports, roster, here.size, exchange.group().patience));
          },
      .split =
          [&](const std::string& answer, int local) {
            auto decision = from_message<Decision>(answer, "the root's decision");
            const bool speaks = roster.ranks_here.at(static_cast<std::size_t>(local)) == decision.speaker;
            if (!speaks) decision.verdict = without_text(decision.verdict);
            return to_message(decision);
          }};
  return from_message<Decision>(exchange.round(to_message(own), steps), "the last answer").verdict;
}

}  // namespace mn::launcher

#include "rounds/missing_ranks.hpp"

#include <iterator>
#include <span>

#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

Finding about(std::vector<std::string> hosts, const std::vector<int>& ranks, int size, const std::string& what,
              const std::string& remedy) {
  constexpr std::size_t kMaxNamed = 8;
  std::string text = ranks.empty() ? "some ranks" : ranks.size() == 1 ? "rank " : "ranks ";
  const auto named = std::span(ranks).first(std::min(ranks.size(), kMaxNamed));
  text += join(named);
  if (ranks.size() > kMaxNamed) text += ", ...";
  return {"tasks", true, std::move(hosts), text + " of " + std::to_string(size) + " " + what, remedy};
}

}  // namespace

Finding late_ranks(const std::vector<std::string>& hosts, const std::vector<int>& ranks, int size,
                   std::chrono::milliseconds patience, bool is_by_nodes) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience).count();
  const bool has_others = is_by_nodes && ranks.size() > hosts.size();
  return about(hosts, ranks, size,
               "did not arrive in " + std::to_string(seconds) + " s" +
                   (has_others ? ", or only the first of them on each node, which speaks for the others" : ""),
               kFindLateRanks);
}

Finding doubled_rank(const std::vector<std::string>& hosts, int rank) {
  return {"tasks", true, hosts,
          std::to_string(hosts.size()) + " processes say that they are rank " + std::to_string(rank),
          "start mnlaunch once for each rank, directly under its launcher, and unset what other launchers left"};
}

void note_absence(AbsentRanks& absence, const Part& missing, int rank) {
  (missing.absence == Part::Absence::kLate ? absence.late : absence.ended).push_back(rank);
}

void MissingRanks::add(Group& group, const std::string& host, const std::vector<int>& ranks) {
  group.hosts.push_back(host);
  std::ranges::copy_if(ranks, std::back_inserter(group.ranks), [](int rank) { return rank >= 0; });
  all_.insert(all_.end(), ranks.begin(), ranks.end());
}

void MissingRanks::note(const std::string& host, const AbsentRanks& absence) {
  if (!absence.late.empty()) add(late_, host, absence.late);
  if (!absence.ended.empty()) add(ended_, host, absence.ended);
}

void MissingRanks::note(const std::string& host, const Part& missing, const std::vector<int>& ranks) {
  if (missing.absence == Part::Absence::kLate) {
    add(late_, host, ranks);
    is_late_by_nodes_ = true;
  }
  if (missing.absence == Part::Absence::kEnded) add(ended_, host, ranks);
  // Ranks that an ended node has cut off get no answer. findings() names only the ended node.
  if (missing.absence == Part::Absence::kCutOff) all_.insert(all_.end(), ranks.begin(), ranks.end());
}

Findings MissingRanks::findings(int size, std::chrono::milliseconds patience, const std::vector<int>& known) const {
  // Once a rank has ended, a leader soon stops waiting, so a late rank may have no fault.
  if (!ended_.hosts.empty()) {
    return {about(ended_.hosts, known.empty() ? ended_.ranks : known, size,
                  "ended before the start, or sent what no mnlaunch sends",
                  "look for their own messages, and for what kills processes there (dmesg)")};
  }
  if (late_.hosts.empty()) return {};
  return {late_ranks(late_.hosts, known.empty() ? late_.ranks : known, size, patience, is_late_by_nodes_)};
}

}  // namespace mn::launcher

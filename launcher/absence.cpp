#include "absence.hpp"

#include <algorithm>

namespace mn::launcher {
namespace {

Finding about(std::vector<std::string> hosts, const std::vector<int>& ranks, int size, const std::string& what,
              const std::string& remedy) {
  constexpr std::size_t kMostNamed = 8;
  std::string text = ranks.empty() ? "some ranks" : ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kMostNamed) text += ", ...";
  return {"tasks", true, std::move(hosts), text + " of " + std::to_string(size) + " " + what, remedy};
}

}  // namespace

Finding late_ranks(const std::vector<std::string>& hosts, const std::vector<int>& ranks, int size,
                   std::chrono::milliseconds patience) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience).count();
  return about(hosts, ranks, size, "did not arrive in " + std::to_string(seconds) + " s",
               "look for a hung node or file system there, and start mnlaunch on every rank");
}

Finding doubled_rank(const std::vector<std::string>& hosts, int rank) {
  return {"tasks",
          true,
          hosts,
          std::to_string(hosts.size()) + " processes say that they are rank " + std::to_string(rank),
          "start mnlaunch once for each rank, directly under its launcher, and unset what other launchers left"};
}

void MissingRanks::note(const std::string& host, const Absence& absence) {
  if (absence.late > 0) late_.push_back(host);
  if (absence.ended > 0) ended_.push_back(host);
}

void MissingRanks::note_node(const std::string& host, bool has_ended) { (has_ended ? ended_ : late_).push_back(host); }

Findings MissingRanks::findings(const std::vector<int>& ranks, int size, std::chrono::milliseconds patience) const {
  // Who waits for a rank that has ended stops waiting for the others soon.
  if (!ended_.empty()) {
    return {about(ended_, ranks, size, "ended before the start, or sent what no mnlaunch sends",
                  "look for their own messages, and for what kills processes there (dmesg)")};
  }
  return late_.empty() ? Findings{} : Findings{late_ranks(late_, ranks, size, patience)};
}

void count(Absence& absence, const Part& missing) { ++(missing.has_ended ? absence.ended : absence.late); }

}  // namespace mn::launcher

// The texts of a survey: JSON lists of kinds of ranks, and the table that they become.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include <mn/core/activity.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/host_list.hpp>
#include <mn/core/json.hpp>
#include <mn/job/progress_watch.hpp>

namespace mn {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxStacks = 8;
constexpr double kLong_s = 10;  // without progress for so long, a rank shows its stack

std::string key_of(const json& kind) {
  return kind.at("state").get<std::string>() + '\n' + kind.at("call").get<std::string>() + '\n' +
         kind.at("stuck").dump() + kind.at("iteration").dump();
}

/// "0-3,7".
std::string fold(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string seconds_text(double seconds) { return std::to_string(static_cast<std::int64_t>(seconds)) + " s"; }

std::vector<int> ranks_of(const json& kind) { return kind.at("ranks").get<std::vector<int>>(); }

std::string who(const json& kind) {
  const auto ranks = ranks_of(kind);
  return (ranks.size() > 1 ? "ranks " : "rank ") + fold(ranks) + " on " +
         abridge_host_list(kind.at("hosts").get<std::vector<std::string>>());
}

std::string line_of(const json& kind) {
  const auto state = kind.at("state").get<std::string>();
  std::string line = std::string(kind.at("stuck").get<bool>() ? "  stuck  " : "         ") + who(kind) + ": " +
                     (state.empty() ? "outside of training" : state) + ", after iteration " +
                     kind.at("iteration").dump();
  const auto call = kind.at("call").get<std::string>();
  if (!call.empty()) line += ", in " + call;
  return line + ", no progress for " + seconds_text(kind.at("silent_s").get<double>()) + "\n";
}

/// In a state that may take longer, for about as long as others are stuck: those may wait for it, unless it waits in a
/// call itself.
bool may_hold_up(const json& kind, double stuck_s) {
  return kind.at("call").get_ref<const std::string&>().empty() && !kind.at("stuck").get<bool>() &&
         !kind.at("state").get_ref<const std::string&>().empty() && kind.at("silent_s").get<double>() >= stuck_s / 2;
}

/// What is sound of a text.
std::vector<json> kinds_of(const std::string& text) {
  try {
    return parse_json(text, "a survey's answer").get<std::vector<json>>();
  } catch (const std::exception&) {
    return {};
  }
}

std::string missing_line(std::vector<int> answered, int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks)), missing;
  std::iota(all.begin(), all.end(), 0);
  std::ranges::sort(answered);
  std::ranges::set_difference(all, answered, std::back_inserter(missing));
  return missing.empty() ? "" : "         no answer from " + fold(missing) + "\n";
}

/// One of each kind that has one.
std::string stacks_of(const std::vector<json>& kinds) {
  std::string text;
  std::size_t count = 0;
  for (const json& kind : kinds) {
    const auto stack = kind.at("stack").get<std::string>();
    if (stack.empty() || ++count > kMaxStacks) continue;
    text += "  stack of rank " + std::to_string(ranks_of(kind).front()) + ":\n";
    InText lines(stack);
    for (std::string line; std::getline(lines, line);) text += "    " + line + "\n";
  }
  return text;
}

}  // namespace

std::string describe_this_rank(const Speaker& speaker, const WatchedThread& watched) {
  const Activity now = activity_now();
  json kind = {
      {"state", now.state},      {"call", now.call},        {"iteration", now.iteration}, {"silent_s", now.silent_s},
      {"stuck", now.is_stuck()}, {"ranks", {speaker.rank}}, {"hosts", {speaker.host}},    {"stack", ""}};
  if (now.is_stuck() || (!now.state.empty() && now.silent_s >= kLong_s)) kind["stack"] = stack_of(watched);
  return json::array({kind}).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string merge_descriptions(const std::vector<std::string>& texts) {
  std::map<std::string, json> merged;
  for (const std::string& text : texts) {
    for (const json& kind : kinds_of(text)) {
      const auto [found, is_new] = merged.try_emplace(key_of(kind), kind);
      if (is_new) continue;
      json& all = found->second;
      auto hosts = all.at("hosts").get<std::set<std::string>>();
      hosts.merge(kind.at("hosts").get<std::set<std::string>>());
      all["hosts"] = hosts;
      for (const json& rank : kind.at("ranks")) all["ranks"].push_back(rank);
      all["silent_s"] = std::max(all.at("silent_s").get<double>(), kind.at("silent_s").get<double>());
      if (all.at("stack") == "") all["stack"] = kind.at("stack");
    }
  }
  json list = json::array();
  std::size_t stacks = 0;
  for (auto& [key, kind] : merged) {
    if (kind.at("stack") != "" && ++stacks > kMaxStacks) kind["stack"] = "";  // an answer must not grow with the ranks
    list.push_back(kind);
  }
  return list.dump();
}

HangReport hang_report(const std::string& text, int ranks) {
  std::vector<json> kinds = kinds_of(text);
  std::ranges::stable_sort(kinds, [](const json& a, const json& b) { return a.at("stuck") > b.at("stuck"); });
  HangReport report{.table = "where the ranks are:\n", .message = {}, .is_over = true};
  std::vector<int> answered, stuck;
  double stuck_s = 0;
  std::string slow;
  for (const json& kind : kinds) {  // the stuck ones first
    const bool is_stuck = kind.at("stuck").get<bool>();
    report.table += line_of(kind);
    if (is_stuck) stuck_s = std::max(stuck_s, kind.at("silent_s").get<double>());
    for (const int rank : ranks_of(kind)) {
      answered.push_back(rank);
      if (is_stuck) stuck.push_back(rank);
    }
    if (may_hold_up(kind, stuck_s))
      slow += (slow.empty() ? "" : "; ") + who(kind) + ": " + kind.at("state").get<std::string>();
  }
  if (stuck.empty()) return {};
  report.table += missing_line(answered, ranks) + stacks_of(kinds);
  report.is_over = slow.empty();
  report.message = (stuck.size() > 1 ? "ranks " + fold(stuck) + " make" : "rank " + fold(stuck) + " makes") +
                   " no progress (the table above says where each rank is)";
  if (!slow.empty()) report.message += "; they may wait for " + slow;
  return report;
}

}  // namespace mn

#include <mn/report/time_parts.hpp>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include <mn/core/classic_stream.hpp>
#include <mn/core/slow_rank.hpp>
#include <mn/core/text.hpp>
#include <mn/report/format.hpp>

namespace mn::report {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 3> kStepParts = {"compute_s", "data_s", "communication_s"};

double total_of(std::span<const double> parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

/// `parts` are seconds. A part of `whole` seconds would fill the whole width.
std::string bar(const TimeParts& parts, double whole) {
  OutText html;
  html.precision(4);
  html << "<div class='bar'>";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] <= 0) continue;
    html << "<span class='p" << i << "' style='width:" << 100 * parts[i] / whole << "%' title='" << kPartNames[i]
         << ": " << duration_text(parts[i]) << "'></span>";
  }
  html << "</div>";
  return html.str();
}

/// Names the parts that took time and, `with_shares`, their shares of the whole time.
std::string legend(const TimeParts& parts, bool with_shares) {
  const double whole = total_of(parts);
  std::string html = "<p class='legend parts'>";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] < 0.0005 * whole || parts[i] <= 0) continue;
    html += "<span class='k" + std::to_string(i) + "'>" + kPartNames[i] +
            (with_shares ? " <b>" + percent(parts[i] / whole) + "</b> (" + duration_text(parts[i]) + ")" : "") +
            "</span> ";
  }
  return html + "</p>";
}

/// Returns the seconds of kStepParts of each rank.
std::vector<TimeParts> times_by_rank(const Run& run) {
  std::vector<TimeParts> ranks;
  for (const json& line : run.times) {
    for (std::size_t i = 0; i < kStepParts.size(); ++i) {
      const auto values = line.at(kStepParts[i]).get<std::vector<double>>();
      ranks.resize(std::max(ranks.size(), values.size()));
      for (std::size_t rank = 0; rank < values.size(); ++rank) {
        ranks[rank][i] += values[rank] * line.at("steps").get<double>();
      }
    }
  }
  return ranks;
}

/// Draws a bar for each pair (label, parts), and a legend without shares. Empty if no part took time.
std::string table_of(const std::vector<std::pair<std::string, TimeParts>>& bars) {
  TimeParts sum = {};
  double longest = 0;
  for (const auto& [label, parts] : bars) {
    longest = std::max(longest, total_of(parts));
    for (std::size_t i = 0; i < parts.size(); ++i) sum[i] += parts[i];
  }
  if (longest == 0) return "";
  std::string rows;
  for (const auto& [label, parts] : bars) {
    rows += "<tr><th>" + escape_html(label) + "</th><td class='wide'>" + bar(parts, longest) +
            "</td><td class='number'>" + duration_text(total_of(parts)) + "</td></tr>\n";
  }
  return "<table class='bars'>" + rows + "</table>" + legend(sum, false);
}

}  // namespace

TimeParts time_parts(const Run& run) {
  TimeParts parts = {};
  if (run.times.empty()) return parts;
  for (const json& line : run.times) {
    const auto ranks = static_cast<double>(line.at("compute_s").size());
    for (std::size_t i = 0; i < kStepParts.size(); ++i) {
      parts[i] += sum_of(line, kStepParts[i]) / ranks * line.at("steps").get<double>();
    }
  }
  for (const Pauses& each : run.pauses) {
    parts[kValidation] += each.validation_s;
    parts[kCheckpoint] += each.checkpoint_s;
  }
  parts[kOther] = std::max(0.0, elapsed_s(run) - total_of(parts));
  return parts;
}

Straggler find_straggler(const Run& run) {
  constexpr double kLeastShare = 0.02;
  std::vector<Straggler> ranks;
  double all_s = 0;
  for (const json& line : run.times) {
    auto own = line.at("compute_s").get<std::vector<double>>();
    const auto data = line.at("data_s").get<std::vector<double>>();
    for (std::size_t rank = 0; rank < std::min(own.size(), data.size()); ++rank) own[rank] += data[rank];
    const auto steps = line.at("steps").get<double>();
    const double step_s = (total_of(own) + sum_of(line, "communication_s")) / static_cast<double>(own.size());
    all_s += step_s * steps;
    const double median = lower_median(own);
    const auto rank = static_cast<std::size_t>(std::ranges::max_element(own) - own.begin());
    if (!is_slow_rank(own[rank], median)) continue;
    if (ranks.size() <= rank) ranks.resize(rank + 1);
    Straggler& slow = ranks[rank];
    slow.rank = rank;
    slow.share += (own[rank] - median) * steps;
    slow.ratio += (own[rank] / median - slow.ratio) / static_cast<double>(++slow.reports);
  }
  if (ranks.empty()) return {};
  Straggler worst = *std::ranges::max_element(ranks, {}, &Straggler::share);
  worst.share /= all_s;
  return worst.share >= kLeastShare && 2 * worst.reports >= run.times.size() ? worst : Straggler();
}

std::string time_bar(const Run& run) {
  const TimeParts parts = time_parts(run);
  const double whole = total_of(parts);
  return whole > 0 ? bar(parts, whole) + legend(parts, true) : "";
}

std::string time_bars(const std::vector<Run>& runs) {
  std::vector<std::pair<std::string, TimeParts>> bars;
  for (const Run& run : runs) bars.emplace_back(run.name, time_parts(run));
  return table_of(bars);
}

std::string rank_bars(const Run& run) {
  constexpr std::size_t kMaxRanks = 256;
  const auto ranks = times_by_rank(run);
  if (ranks.size() < 2) return "";
  std::vector<std::pair<std::string, TimeParts>> bars;
  for (std::size_t rank = 0; rank < std::min(ranks.size(), kMaxRanks); ++rank) {
    const std::string host = rank < run.hosts.size() ? " (" + run.hosts[rank] + ")" : "";
    bars.emplace_back("rank " + std::to_string(rank) + host, ranks[rank]);
  }
  const std::string table = table_of(bars);
  return table.empty() ? "" : "<details><summary>Steps of each rank</summary>" + table + "</details>\n";
}

}  // namespace mn::report

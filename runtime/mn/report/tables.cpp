#include <mn/report/tables.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include <mn/core/metric.hpp>
#include <mn/core/text.hpp>
#include <mn/core/unix_time.hpp>

namespace mn::report {
namespace {

constexpr std::string_view kBytes = "bytes";  // word in the names of metrics that count bytes: "bytes_per_step"
constexpr double kMiB = 1 << 20;

/// The unit in which a metric is shown.
double unit_of(const std::string& metric) { return metric.find(kBytes) == std::string::npos ? 1 : kMiB; }

std::string row(const std::string& name, const std::vector<std::string>& cells, bool numbers = false) {
  std::string html = "<tr><th>" + escape_html(name) + "</th>";
  for (const std::string& cell : cells) {
    html += (numbers ? "<td class='number'>" : "<td>") + escape_html(cell) + "</td>";
  }
  return html + "</tr>\n";
}

template <class F>
std::vector<std::string> of_each(const std::vector<Run>& runs, F text) {
  std::vector<std::string> cells;
  for (const Run& run : runs) cells.push_back(text(run));
  return cells;
}

std::string ranks_and_hosts(const Run& run) {
  std::map<std::string, int> ranks;
  for (const std::string& host : run.hosts) ++ranks[host];
  std::vector<std::string> parts;
  for (const auto& [host, count] : ranks) parts.push_back(host + ": " + std::to_string(count));
  return run.hosts.empty() ? "" : std::to_string(run.hosts.size()) + " (" + join(parts) + ")";
}

std::string last_value(const Run& run, const std::string& metric) {
  const Curve curve = curve_of(run, metric);
  return curve.points.empty() ? "" : short_number(curve.points.back().second);
}

std::string value_of(const std::map<std::string, std::string>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? std::string() : found->second;
}

/// The direction in which a metric is better. For the metric of --monitor, --monitor-better gives the direction; for
/// all other metrics, the name does.
std::optional<Better> better_in(const Run& run, const std::string& metric) {
  const bool is_monitored = value_of(run.options, "monitor") == metric;
  const std::string said = is_monitored ? value_of(run.options, "monitor-better") : "";
  if (said == "lower") return Better::kLower;
  if (said == "higher") return Better::kHigher;
  return better_of(metric);
}

/// The best value, "0.25 (epoch 3)"; empty for metrics without a direction.
std::string best_value(const Run& run, const std::string& metric) {
  const auto better = better_in(run, metric);
  const nlohmann::json* best = nullptr;
  for (const auto& entry : run.log) {
    const auto value = entry.find(metric);
    if (!better || value == entry.end() || !value->is_number()) continue;
    const auto number = value->get<double>();
    const bool is_better = best == nullptr || (*better == Better::kLower ? number < best->at(metric).get<double>()
                                                                         : number > best->at(metric).get<double>());
    if (is_better) best = &entry;
  }
  if (best == nullptr) return "";
  const auto epoch = epoch_of(run, *best);
  const double unit = unit_of(metric);
  return short_number(best->at(metric).get<double>() / unit) +
         (epoch ? " (epoch " + short_number(*epoch) + ")" : " (iteration " + best->at("iteration").dump() + ")");
}

/// The start, "2026-11-25 08:00 UTC"; empty without run.jsonl.
std::string started(const Run& run) { return run.started ? utc_text(*run.started, "%Y-%m-%d %H:%M UTC") : ""; }

/// The program's name: "mnist".
std::string job_of(const Run& run) {
  return run.command.empty() ? "" : std::filesystem::path(run.command.front()).filename().string();
}

/// The hosts, "n1" or "n1 and 3 more".
std::string hosts_of(const Run& run) {
  const std::set<std::string> hosts(run.hosts.begin(), run.hosts.end());
  if (hosts.empty()) return "";
  return run.hosts.front() + (hosts.size() > 1 ? " and " + std::to_string(hosts.size() - 1) + " more" : "");
}

}  // namespace

std::string title_of(const std::vector<Run>& runs) {
  const Run& first = runs.front();
  // The title has only what all runs share.
  const auto same = [&](const auto& text) {
    return std::ranges::all_of(runs, [&](const Run& run) { return text(run) == text(first); }) ? text(first) : "";
  };
  std::vector<std::string> parts = {same(job_of), same(started), same(hosts_of)};
  std::erase(parts, "");
  const std::string name = runs.size() == 1 ? first.name : std::to_string(runs.size()) + " runs";
  return parts.empty() ? name : join(parts) + ": " + name;
}

Curve curve_of(const Run& run, const std::string& metric, bool by_epoch) {
  const double unit = unit_of(metric);
  Curve curve;
  for (const auto& entry : run.log) {
    const auto value = entry.find(metric);
    if (value == entry.end() || !value->is_number()) continue;
    curve.points.emplace_back(by_epoch ? *epoch_of(run, entry) : entry.at("iteration").get<double>(),
                              value->get<double>() / unit);
  }
  return curve;
}

bool is_constant(const std::vector<Run>& runs, const std::string& metric) {
  bool repeats = false;
  for (const Run& run : runs) {
    const Curve curve = curve_of(run, metric);
    repeats = repeats || curve.points.size() > 1;
    for (const auto& [x, value] : curve.points) {
      if (value != curve.points.front().second) return false;
    }
  }
  return repeats;
}

std::string shown_name(const std::string& metric) {
  std::string name = metric;
  if (const auto at = name.find(kBytes); at != std::string::npos) name.replace(at, kBytes.size(), "MiB");
  return name;
}

std::string summary_table(const std::vector<Run>& runs) {
  std::string html = "<table>";
  if (runs.size() > 1) html += row("", of_each(runs, [](const Run& run) { return run.name; }));
  html += row("command", of_each(runs, [](const Run& run) { return join(run.command, " "); }));
  html += row("ranks by host", of_each(runs, ranks_and_hosts));
  html += row("started", of_each(runs, started));
  html += row("device", of_each(runs, [](const Run& run) { return run.device; }));
  html +=
      row("iterations",
          of_each(runs, [](const Run& run) { return run.log.empty() ? "" : run.log.back().at("iteration").dump(); }));
  html += row("ended because", of_each(runs, [](const Run& run) { return run.why; }));
  html += row("seconds", of_each(runs, [](const Run& run) { return last_value(run, "elapsed_time"); }));
  std::set<std::string> metrics;
  for (const Run& run : runs) {
    for (const std::string& metric : metrics_of(run)) metrics.insert(metric);
  }
  for (const std::string& metric : metrics) {
    const std::string name = shown_name(metric);
    const bool constant = is_constant(runs, metric);
    html += row(name + (constant ? ", constant" : ", last"),
                of_each(runs, [&](const Run& run) { return last_value(run, metric); }), true);
    const auto best = of_each(runs, [&](const Run& run) { return best_value(run, metric); });
    const bool is_known = std::ranges::any_of(best, [](const std::string& cell) { return !cell.empty(); });
    if (is_known && !constant) html += row(name + ", best", best, true);
  }
  return html + "</table>\n";
}

std::string options_that_differ(const std::vector<Run>& runs) {
  std::set<std::string> names;
  for (const Run& run : runs) {
    for (const auto& [name, value] : run.options) names.insert(name);
  }
  const bool single = runs.size() == 1;
  if (!single) names.erase("out");  // the columns have `out` as their names
  std::string rows;
  for (const std::string& name : names) {
    auto values = of_each(runs, [&](const Run& run) { return value_of(run.options, name); });
    const bool same = std::ranges::all_of(values, [&](const std::string& value) { return value == values.front(); });
    if (single ? !runs.front().changed.contains(name) : same) continue;
    if (single) values.push_back(value_of(runs.front().changed, name));
    rows += row(name, values);
  }
  if (rows.empty()) return "";
  const auto heads =
      single ? std::vector<std::string>{"value", "default"} : of_each(runs, [](const Run& run) { return run.name; });
  return "<h2>Options that differ" + std::string(single ? " from their defaults" : "") + "</h2><table>" +
         row("", heads) + rows + "</table>\n";
}

std::string other_options(const std::vector<Run>& runs) {
  if (runs.size() > 1) return "";
  std::string rows;
  for (const auto& [name, value] : runs.front().options) {
    if (!runs.front().changed.contains(name)) rows += row(name, {value});
  }
  return rows.empty() ? "" : "<h2>Options</h2><table>" + rows + "</table>\n";
}

}  // namespace mn::report

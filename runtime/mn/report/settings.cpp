#include <mn/report/settings.hpp>

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <tuple>
#include <utility>

#include <mn/core/text.hpp>
#include <mn/report/format.hpp>
#include <mn/report/html_page.hpp>
#include <mn/report/metrics.hpp>

namespace mn::report {
namespace {

std::string row(const std::string& name, const std::vector<std::string>& cells, const char* kind = "") {
  std::string html = "<tr><th>" + escape_html(name) + "</th>";
  for (const std::string& cell : cells) html += "<td" + std::string(kind) + ">" + escape_html(cell) + "</td>";
  return html + "</tr>\n";
}

std::string pair(const std::string& name, const std::string& value) {
  return value.empty() ? "" : "<dt>" + escape_html(name) + "</dt><dd>" + escape_html(value) + "</dd>";
}

std::string ranks_and_hosts(const Run& run) {
  std::map<std::string, int> ranks;
  for (const std::string& host : run.hosts) ++ranks[host];
  std::vector<std::string> parts;
  for (const auto& [host, count] : ranks) parts.push_back(host + ": " + std::to_string(count));
  return run.hosts.empty() ? "" : std::to_string(run.hosts.size()) + " (" + join(parts) + ")";
}

std::string facts_of(const Run& run) {
  const Facts& facts = run.facts;
  const auto size = [](std::int64_t count) { return count > 0 ? count_text(static_cast<double>(count)) : ""; };
  std::vector<std::string> versions;
  if (!facts.mn.empty()) versions.push_back("mn " + facts.mn);
  if (!facts.torch.empty()) versions.push_back("libtorch " + facts.torch);
  const std::string html =
      pair("parameters", size(facts.parameters)) + pair("training samples", size(facts.samples)) +
      pair("global batch", size(facts.global_batch)) + pair("ranks by host", ranks_and_hosts(run)) +
      pair("device", facts.device.empty() ? run.device : facts.device) + pair("versions", join(versions));
  return html.empty() ? "" : "<dl class='pairs'>" + html + "</dl>";
}

std::string changed_options(const Run& run) {
  std::string rows;
  for (const auto& [name, usual] : run.changed) {
    if (run.idle.contains(name)) continue;
    rows += "<tr><th>" + escape_html(name) + "</th><td>" + escape_html(used_value(run, name)) +
            "</td><td class='set'>" + escape_html(usual.empty() ? "none" : usual) + "</td></tr>\n";
  }
  if (rows.empty()) return "";
  return "<details open><summary>Options that differ from their defaults</summary><div class='scroll'><table><tr><th>"
         "</th><th>value</th><th>default</th></tr>" +
         rows + "</table></div></details>\n";
}

std::string other_options(const Run& run) {
  std::string rows;
  for (const auto& [name, value] : run.options) {
    if (!run.changed.contains(name) && !run.idle.contains(name)) rows += row(name, {used_value(run, name)});
  }
  if (rows.empty()) return "";
  rows = "<div class='scroll'><table>" + rows + "</table></div>";
  if (!run.idle.empty()) rows += "<p>Without an effect in this run: " + escape_html(join(run.idle)) + "</p>";
  return folded(run.has_options ? "Options with their defaults" : "Settings", rows);
}

}  // namespace

std::string settings_of(const Run& run) {
  const std::string command = join(run.command, " ");
  return (command.empty() ? "" : "<code class='command'>" + escape_html(command) + "</code>") + facts_of(run) +
         changed_options(run) + other_options(run);
}

std::vector<std::string> differing_options(const std::vector<Run>& runs) {
  std::set<std::string> names;
  for (const Run& run : runs) {
    for (const auto& [name, value] : run.options) names.insert(name);
  }
  names.erase("out");                                          // `out` names the rows of a comparison already
  std::vector<std::pair<std::string, std::size_t>> differing;  // names of options, each with its number of values
  for (const std::string& name : names) {
    std::set<std::string> values;
    for (const Run& run : runs) {
      if (run.options.contains(name)) values.insert(used_value(run, name));
    }
    if (values.size() > 1) differing.emplace_back(name, values.size());
  }
  const auto rank = [&](const auto& option) {
    const std::string& name = option.first;
    const bool is_idle = std::ranges::all_of(runs, [&](const Run& run) { return run.idle.contains(name); });
    const bool is_default = std::ranges::none_of(runs, [&](const Run& run) { return run.changed.contains(name); });
    return std::tuple(is_idle, is_default, runs.size() - option.second);
  };
  std::ranges::stable_sort(differing, {}, rank);
  const auto names_only = std::views::keys(differing);
  return {names_only.begin(), names_only.end()};
}

std::string values_table(const Run& run) {
  std::string rows;
  for (const std::string& metric : metrics_of(run)) {
    const auto values = values_of(run, metric);
    const std::string name = shown_name(run, metric);
    if (!values) {
      rows += row(name, {"not a number", "", ""}, " class='number'");
      continue;
    }
    const bool constant = is_constant({run}, metric);
    const bool has_best = !constant && !values->best_at.empty();
    rows +=
        row(name + (constant ? ", constant" : ""),
            {short_number(values->last), has_best ? short_number(values->best) : "", has_best ? values->best_at : ""},
            " class='number'");
  }
  if (rows.empty()) return "";
  return "<div class='scroll'><table><tr><th></th><th class='number'>last</th><th class='number'>best</th><th "
         "class='number'>in</th></tr>" +
         rows + "</table></div>";
}

}  // namespace mn::report

#include <mn/report/comparison.hpp>

#include <algorithm>
#include <iterator>
#include <limits>
#include <ranges>
#include <set>

#include <mn/core/classic_stream.hpp>
#include <mn/core/text.hpp>
#include <mn/report/chart.hpp>
#include <mn/report/findings.hpp>
#include <mn/report/format.hpp>
#include <mn/report/html_page.hpp>
#include <mn/report/metrics.hpp>
#include <mn/report/settings.hpp>
#include <mn/report/time_parts.hpp>

namespace mn::report {
namespace {

constexpr std::size_t kMaxOptions = 6;  // most options that get a column in the table
constexpr const char* kLosses[] = {"validation/main/loss", "main/loss"};

bool any_has(const std::vector<Run>& runs, const std::string& metric) {
  return std::ranges::any_of(runs, [&](const Run& run) { return values_of(run, metric).has_value(); });
}

/// Returns the metric by which the runs are sorted, or "". If some runs lack the metric because their validation sets
/// have other names, returns the metric's common_name().
std::string shared_metric(const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    const std::string metric = main_metric(run);
    if (metric.empty()) continue;
    const auto has = [&](const Run& each) { return values_of(each, metric).has_value(); };
    return std::ranges::all_of(runs, has) ? metric : common_name(run, metric);
  }
  return "";
}

/// True if in every run, the names `a` and `b` mean the same value of the log.
bool are_same(const std::vector<Run>& runs, const std::string& a, const std::string& b) {
  return std::ranges::all_of(runs, [&](const Run& run) { return logged_name(run, a) == logged_name(run, b); });
}

int color_of(std::size_t place) { return place < kColors ? static_cast<int>(place) : kGray; }

void shorten_names(std::vector<Run>& runs) {
  while (true) {
    const auto slash = runs.front().name.find('/');
    if (slash == std::string::npos) return;
    const std::string folder = runs.front().name.substr(0, slash + 1);
    const auto is_inside = [&](const Run& run) { return run.name.starts_with(folder) && run.name != folder; };
    if (!std::ranges::all_of(runs, is_inside)) return;
    for (Run& run : runs) run.name.erase(0, folder.size());
  }
}

struct Cell {
  std::string text;
  std::string key = {};   ///< number by which the column is sorted; empty: sorted by `text`
  std::string kind = {};  ///< CSS class of the cell
};

Cell number_cell(double value, const std::string& text, const std::string& kind = "") {
  OutText key;
  key.precision(12);
  key << value;
  return {text, key.str(), "number " + kind};
}

Cell metric_cell(const Run& run, const std::string& metric, const std::string& kind = "") {
  const auto values = values_of(run, metric);
  return values ? number_cell(values->best, short_number(values->best), kind) : Cell{"", "", "number"};
}

Cell state_cell(const Run& run, double now) {
  for (const Finding& finding : findings_of(run, now)) {
    if (finding.cost > 1) return {finding.title, "", "bad"};
  }
  if (run.command.empty()) return {"no run.jsonl"};
  const State state = state_of(run, now);  // a finding describes kFailed and kLost
  if (state == State::kFinished) return {"finished"};
  if (state == State::kQuiet) return {quiet_text(run, now), "", "warn"};
  return {state == State::kStopped ? "stopped" : "running", "", "warn"};
}

std::string html_of(const Cell& cell) {
  return "<td class='" + cell.kind + "'" + (cell.key.empty() ? "" : " data-value='" + cell.key + "'") + ">" +
         escape_html(cell.text) + "</td>";
}

std::vector<std::pair<std::string, std::vector<Cell>>> columns_of(const std::vector<Run>& runs, double now) {
  std::vector<std::pair<std::string, std::vector<Cell>>> columns;
  const auto add = [&](const std::string& head, const auto& cell) {
    columns.emplace_back(head, std::vector<Cell>());
    for (const Run& run : runs) columns.back().second.push_back(cell(run));
  };
  const std::string metric = shared_metric(runs);
  if (!metric.empty()) {
    add("best " + shown_name(runs, metric),
        [&](const Run& run) { return metric_cell(run, metric, &run == &runs.front() ? "best" : ""); });
    add("in", [&](const Run& run) {
      const auto values = values_of(run, metric);
      return Cell{values ? values->best_at : ""};
    });
  }
  const auto options = differing_options(runs);
  for (const std::string& name : options | std::views::take(kMaxOptions)) {
    add(name, [&](const Run& run) { return Cell{used_value(run, name)}; });
  }
  const auto* const loss = std::ranges::find_if(kLosses, [&](const char* name) { return any_has(runs, name); });
  if (loss != std::end(kLosses) && !are_same(runs, *loss, metric)) {
    add("best " + shown_name(runs, *loss), [&](const Run& run) { return metric_cell(run, *loss); });
  }
  add("time", [](const Run& run) { return number_cell(elapsed_s(run), duration_text(elapsed_s(run))); });
  const std::string speed = shown_name(runs, kSpeed);
  add(speed, [&](const Run& run) {
    const std::string unit = shown_name(run, kSpeed);
    return number_cell(speed_of(run), count_text(speed_of(run)) + (unit == speed ? "" : " " + unit));
  });
  add("state", [&](const Run& run) { return state_cell(run, now); });
  return columns;
}

/// The line under the table names the differing options that have no column.
std::string other_options(const std::vector<Run>& runs) {
  const auto options = differing_options(runs);
  if (options.size() <= kMaxOptions) return "";
  const std::string others = join(options | std::views::drop(kMaxOptions));
  return "<p class='set'>" + escape_html("Other options that differ: " + others) + "</p>";
}

std::string table_of(const std::vector<Run>& runs, double now) {
  const auto columns = columns_of(runs, now);
  std::string html = "<div class='scroll'><table class='runs'><thead><tr><th title='click a head to sort'>run</th>";
  for (const auto& [head, cells] : columns) {
    html += "<th" + std::string(cells.front().key.empty() ? "" : " class='number'") + ">" + escape_html(head) + "</th>";
  }
  html += "</tr></thead><tbody>\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string name = escape_html(runs[i].name);
    html += "<tr data-run='" + name + "'><th><span class='dot m" + std::to_string(color_of(i)) + "'></span>" + name +
            "</th>";
    for (const auto& [head, cells] : columns) html += html_of(cells[i]);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>" + other_options(runs);
}

Curve curve_of(const std::vector<Run>& runs, std::size_t place, const std::string& metric, bool by_epoch) {
  const Run& run = runs[place];
  return {.name = run.name,
          .points = points_of(run, metric, by_epoch),
          .color = color_of(place),
          .smooth = !is_validated(metric),
          .run = run.name};
}

/// The curve of the best run is drawn last, so that it lies above all other curves.
std::string overlay(const std::vector<Run>& runs, const std::string& metric, bool by_epoch) {
  Chart chart{.title = shown_name(runs, metric),
              .x_label = by_epoch ? "epoch" : "iteration",
              .curves = {},
              .can_be_log = metric.ends_with("loss"),
              .has_legend = false};
  for (std::size_t i = runs.size(); i-- > 0;) chart.curves.push_back(curve_of(runs, i, metric, by_epoch));
  return draw_chart(chart);
}

std::string charts_of(const std::vector<Run>& runs) {
  const bool by_epoch = count_epochs(runs);
  std::vector<std::string> shown = {shared_metric(runs)};
  for (const char* loss : kLosses) {
    if (any_has(runs, loss) && !are_same(runs, shown.front(), loss)) shown.emplace_back(loss);
  }
  shown.resize(std::min<std::size_t>(shown.size(), 2));
  std::string main, others;
  for (const std::string& metric : shown) main += overlay(runs, metric, by_epoch);
  std::set<std::string> names;
  for (const Run& run : runs) {
    const auto is_shown = [&](const std::string& metric) {
      return std::ranges::any_of(shown, [&](const std::string& name) { return logged_name(run, name) == metric; });
    };
    for (const std::string& metric : metrics_of(run)) {
      if (!is_shown(metric)) names.insert(metric);
    }
  }
  for (const std::string& metric : names) {
    if (!is_constant(runs, metric)) others += overlay(runs, metric, by_epoch);
  }
  if (!others.empty()) others = "<div class='charts'>" + others + "</div>";
  const std::string hint = runs.size() > kColors ? "<p class='set'>The best " + std::to_string(kColors) +
                                                       " runs have colors. Point at a row of the table to see its "
                                                       "curves.</p>"
                                                 : "";
  return "<div class='charts'>" + main + "</div>" + hint + folded("More curves", others);
}

}  // namespace

std::vector<Run> ranked(std::vector<Run> runs) {
  shorten_names(runs);
  const std::string metric = shared_metric(runs);
  const auto key = [&](const Run& run) {
    const auto values = metric.empty() ? std::nullopt : values_of(run, metric);
    if (!values) return std::numeric_limits<double>::infinity();
    return better_in(run, metric) == Better::kHigher ? -values->best : values->best;
  };
  std::ranges::stable_sort(runs, {}, key);
  return runs;
}

std::string compare(const std::vector<Run>& runs, double now) {
  return section("Runs, the best first", table_of(runs, now)) + section("Curves", charts_of(runs)) +
         section("Where the time went", time_bars(runs));
}

}  // namespace mn::report

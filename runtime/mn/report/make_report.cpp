#include <mn/report/make_report.hpp>

#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/unix_time.hpp>
#include <mn/report/chart.hpp>
#include <mn/report/comparison.hpp>
#include <mn/report/findings.hpp>
#include <mn/report/format.hpp>
#include <mn/report/headline.hpp>
#include <mn/report/html_page.hpp>
#include <mn/report/metrics.hpp>
#include <mn/report/rate_search.hpp>
#include <mn/report/run_files.hpp>
#include <mn/report/samples.hpp>
#include <mn/report/settings.hpp>
#include <mn/report/time_parts.hpp>

namespace mn {
namespace {

using namespace report;

constexpr int kRefresh_s = 20;  // while a run goes on, a browser reloads its page after this time

std::string chart_of(const std::string& metric) { return metric.substr(metric.rfind('/') + 1); }

/// Draws the curves of training and validation in one chart. A ring marks the best value of each validation set.
std::string draw(const Run& run, const std::vector<std::string>& metrics, const std::string& title, bool by_epoch) {
  Chart chart{.title = title,
              .x_label = by_epoch ? "epoch" : "iteration",
              .curves = {},
              .can_be_log = title == "loss",
              .has_legend = metrics.size() > 1};
  int validations = 0;
  for (const std::string& metric : metrics) {
    const bool validated = is_validated(metric);
    Curve curve{.name = shown_name(run, metric),
                .points = points_of(run, metric, by_epoch),
                .color = validated ? ++validations : 0,
                .smooth = !validated};
    if (const auto values = values_of(run, metric, by_epoch); validated && values && values->point) {
      curve.marked = values->point;
      curve.mark = "best " + short_number(values->best);
    }
    chart.curves.push_back(std::move(curve));
  }
  return draw_chart(chart);
}

/// A click shows the charts of all metrics except the loss and the main metric.
std::string curves_of(const Run& run) {
  const bool by_epoch = count_epochs({run});
  std::map<std::string, std::vector<std::string>> charts;
  for (const std::string& metric : metrics_of(run)) {
    const bool is_alone = is_constant({run}, metric) || !values_of(run, metric);  // then the table of values is enough
    if (!is_alone) charts[chart_of(metric)].push_back(metric);
  }
  std::string main, others;
  for (const std::string& title : {std::string("loss"), chart_of(main_metric(run))}) {
    if (!charts.contains(title)) continue;
    main += draw(run, charts.at(title), title, by_epoch);
    charts.erase(title);
  }
  for (const auto& [title, metrics] : charts) {
    others += draw(run, metrics, metrics.size() > 1 ? title : shown_name(run, metrics.front()), by_epoch);
  }
  if (!main.empty()) main = "<div class='charts'>" + main + "</div>\n";
  if (!others.empty()) others = "<div class='charts'>" + others + "</div>";
  return main + folded(counted(static_cast<double>(charts.size()), "other curve"), others) +
         folded("All values", values_table(run));
}

/// The account of --show-memory. Empty if the run has none.
std::string memory_of(const Run& run) {
  std::error_code none;
  const std::filesystem::path account = run.folder / "memory.txt";
  if (!std::filesystem::is_regular_file(account, none)) return "";
  return "<pre>" + escape_html(read_file(account)) + "</pre>";
}

std::string page_of(const Run& run, double now) {
  const std::string origin = origin_of({run});
  const std::string body = run_header(run, now) + tiles(run) + rate_search(run.folder) +
                           section("What to look at", findings_list(run, now)) + section("Curves", curves_of(run)) +
                           section("Where the time went", time_bar(run) + rank_bars(run)) +
                           section("Memory", memory_of(run)) + section("What was run", settings_of(run)) +
                           section("Samples", samples_of(run));
  const State state = state_of(run, now);
  const bool goes_on = state == State::kRunning || state == State::kQuiet;
  return make_page((origin.empty() ? "" : origin + ": ") + run.name, body,
                   goes_on ? std::optional(kRefresh_s) : std::nullopt);
}

std::vector<Run> read_runs(const std::vector<std::filesystem::path>& outs, const Note& note) {
  std::vector<Run> runs;
  for (const auto& out : outs) {
    try {
      runs.push_back(read_run(out));
    } catch (const DataError& error) {
      if (outs.size() == 1 || !has_run(out)) throw;
      if (note) note(out.string() + " is left out: " + error.what());
    }
  }
  if (runs.empty())
    throw DataError("no run is left: the files in all " + std::to_string(outs.size()) + " folders are damaged");
  return runs;
}

}  // namespace

bool has_run(const std::filesystem::path& out) {
  std::error_code none;
  return std::filesystem::is_regular_file(out / "log", none) ||
         std::filesystem::is_regular_file(out / "run.jsonl", none);
}

std::string make_report(const std::vector<std::filesystem::path>& outs, const Note& note) {
  const double now = unix_time();
  std::vector<Run> runs = read_runs(outs, note);
  if (runs.size() == 1) return page_of(runs.front(), now);
  runs = ranked(std::move(runs));
  std::string searches;
  for (const Run& run : runs) searches += rate_search(run.folder);
  const std::string origin = origin_of(runs);
  const std::string title = (origin.empty() ? "" : origin + ": ") + std::to_string(runs.size()) + " runs";
  return make_page(title, "<header><h1>" + escape_html(title) + "</h1></header>\n" + searches + compare(runs, now));
}

}  // namespace mn

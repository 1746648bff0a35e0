#include <mn/report/report.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>

#include <mn/core/classic_stream.hpp>
#include <mn/core/file.hpp>
#include <mn/report/chart.hpp>
#include <mn/report/rate_search.hpp>
#include <mn/report/run_files.hpp>
#include <mn/report/tables.hpp>

namespace mn {
namespace {

using report::Curve;
using report::curve_of;
using report::draw_chart;
using report::escape_html;
using report::is_constant;
using report::Run;
using report::shown_name;

constexpr const char* kStyle = R"(
:root { --back: #fff; --text: #1c1f24; --faint: #d8dce2; --note: #fff4d6; --c0: #1f6fb4; --c1: #d6541c; --c2: #2a8c4a;
  --c3: #a03ca8; --c4: #8a6a12; --c5: #0f8f94; --c6: #c22f5c; --c7: #5a6472; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --back: #15181c; --text: #e6e8eb; --faint: #3a4048; --note: #3d3315;
  --c0: #6bb2f0; --c1: #ff9a66; --c2: #6fd08c; --c3: #dd8ce3; --c4: #d8b95a; --c5: #5fd3d8; --c6: #ff86ab;
  --c7: #a9b3c0; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em;
  background: var(--back); color: var(--text); }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; display: block; overflow-x: auto; } th, td { border: 1px solid var(--faint);
  padding: .25em .6em; text-align: left; vertical-align: top; } td.number { text-align: right; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 1em; }
figure { margin: 0; } figcaption { font-weight: 600; } svg { width: 100%; height: auto; } svg text { font-size: 11px;
  fill: var(--text); } img { max-width: 100%; }
.grid { stroke: var(--faint); } .axis { stroke: var(--text); fill: none; }
.legend span { display: inline-block; margin-right: 1em; }
.legend span::before { content: ""; display: inline-block; width: 1.8em; margin-right: .4em; vertical-align: middle;
  border-top: 2px solid; } .legend span.dashed::before { border-top-style: dashed; }
path.dashed { stroke-dasharray: 5 4; }
.findings { background: var(--note); padding: .6em 1.6em; } code { overflow-wrap: anywhere; }
)";

std::string style() {
  OutText text;
  text << kStyle;
  for (int i = 0; i < report::kColors; ++i) {
    text << ".c" << i << "{stroke:var(--c" << i << ");fill:none;stroke-width:1.8}.m" << i << "{fill:var(--c" << i
         << ")}.l" << i << "::before{border-top-color:var(--c" << i << ")!important}\n";
  }
  return text.str();
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) text += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63U];
  }
  return text;
}

bool of_validation(const std::string& metric) { return metric.starts_with("validation/"); }

/// The chart that shows a metric: "loss" for "validation/main/loss" and "main/loss".
std::string chart_of(const std::string& metric) { return metric.substr(metric.rfind('/') + 1); }

/// True if every report of every run has an epoch: epochs then compare runs with different batch sizes.
bool count_epochs(const std::vector<Run>& runs) {
  return std::ranges::all_of(runs, [](const Run& run) {
    return std::ranges::all_of(run.log, [&](const auto& entry) { return epoch_of(run, entry).has_value(); });
  });
}

std::string metric_charts(const std::vector<Run>& runs) {
  const bool by_epoch = count_epochs(runs);
  const std::string x = by_epoch ? "epoch" : "iteration";
  std::map<std::string, std::vector<Curve>> charts;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const std::string& metric : metrics_of(runs[i])) {
      if (is_constant(runs, metric)) continue;  // the table has the value
      Curve curve = curve_of(runs[i], metric, by_epoch);
      curve.name = (runs.size() > 1 ? runs[i].name + ": " : "") + shown_name(metric);
      curve.color = runs.size() > 1 ? static_cast<int>(i) : of_validation(metric) ? 1 : 0;
      curve.dashed = runs.size() > 1 && of_validation(metric);
      charts[chart_of(shown_name(metric))].push_back(std::move(curve));
    }
  }
  std::string html = draw_chart("loss", x, charts["loss"]);
  charts.erase("loss");
  for (const auto& [title, curves] : charts) html += draw_chart(title, x, curves);
  return html;
}

/// Charts of each part of a step, by rank, over the run.
std::string rank_charts(const Run& run) {
  constexpr std::size_t kMaxRanks = 64;  // more curves cannot be told apart
  const bool by_epoch = std::ranges::all_of(run.times, [](const auto& line) { return line.contains("epoch"); });
  const std::string x = by_epoch ? "epoch" : "iteration";
  std::string html;
  for (const auto& [part, title] :
       {std::pair("compute_s", "computing"), std::pair("communication_s", "waiting for other ranks and the network"),
        std::pair("data_s", "waiting for minibatches"), std::pair("storage_s", "waiting for minibatches: read"),
        std::pair("transform_s", "waiting for minibatches: decoded"),
        std::pair("copy_s", "waiting for minibatches: copied to the device"),
        std::pair("queue_s", "waiting for minibatches: not begun yet")}) {
    if (!report::has_time(run, part)) continue;
    std::vector<Curve> curves;
    for (const auto& line : run.times) {
      const auto values = line.value(part, std::vector<double>());
      curves.resize(std::min(std::max(curves.size(), values.size()), kMaxRanks));
      for (std::size_t rank = 0; rank < std::min(values.size(), curves.size()); ++rank) {
        curves[rank].points.emplace_back(line.at(x).get<double>(), values[rank] * 1e3);
      }
    }
    for (std::size_t rank = 0; rank < curves.size(); ++rank) {
      curves[rank].name = "rank " + std::to_string(rank);
      if (rank < run.hosts.size()) curves[rank].name += " (" + run.hosts[rank] + ")";
      curves[rank].color = static_cast<int>(rank);
    }
    html += draw_chart(std::string(title) + ", ms a step", x, curves);
  }
  return html;
}

/// The images of OUT/images, embedded in the page.
std::string image_figures(const std::vector<Run>& runs) {
  constexpr std::size_t kMaxImages = 32, kMaxImageBytes = std::size_t{4} << 20;
  std::string html;
  for (const Run& run : runs) {
    for (std::size_t i = 0; i < std::min(run.images.size(), kMaxImages); ++i) {
      const std::string bytes = read_file(run.images[i]);
      if (bytes.size() > kMaxImageBytes) continue;
      const std::string name = run.images[i].filename().string();
      html += "<figure><figcaption>" + escape_html((runs.size() > 1 ? run.name + ": " : "") + name) +
              "</figcaption><img alt='" + escape_html(name) + "' src='data:image/" +
              (name.ends_with(".png") ? "png" : "jpeg") + ";base64," + base64(bytes) + "'></figure>\n";
    }
  }
  return html.empty() ? "" : "<h2>Images</h2><div class='charts'>" + html + "</div>\n";
}

std::string findings_list(const std::vector<Run>& runs) {
  std::string items;
  for (const Run& run : runs) {
    for (const std::string& finding : findings_of(run)) {
      items += "<li>" + escape_html((runs.size() > 1 ? run.name + ": " : "") + finding) + "</li>";
    }
  }
  return items.empty() ? "" : "<ul class='findings'>" + items + "</ul>\n";
}

}  // namespace

std::string make_report(const std::vector<std::filesystem::path>& outs) {
  std::vector<Run> runs;
  for (const auto& out : outs) runs.push_back(report::read_run(out));
  const std::string title = report::title_of(runs);
  std::string html =
      "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
      "content='width=device-width'><title>" +
      escape_html(title) + "</title><style>" + style() + "</style></head><body>\n<h1>" + escape_html(title) + "</h1>\n";
  for (const auto& out : outs) html += report::rate_search(out);
  html += findings_list(runs) + report::summary_table(runs) + report::options_that_differ(runs);
  html += "<h2>Curves</h2><div class='charts'>" + metric_charts(runs) + "</div>\n";
  for (const Run& run : runs) {
    const std::string charts = rank_charts(run);
    if (charts.empty()) continue;
    html += "<h2>Time of a step by rank" + (runs.size() > 1 ? ": " + escape_html(run.name) : "") +
            "</h2><div class='charts'>" + charts + "</div>\n";
  }
  return html + image_figures(runs) + report::other_options(runs) + "</body></html>\n";
}

}  // namespace mn

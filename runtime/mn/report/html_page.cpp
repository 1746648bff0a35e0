#include <mn/report/html_page.hpp>

#include <mn/core/classic_stream.hpp>
#include <mn/report/chart.hpp>
#include <mn/report/format.hpp>
#include <mn/report/page_script.hpp>

namespace mn::report {
namespace {

constexpr const char* kHead =
    "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width'>";

constexpr const char* kStyle = R"(
:root { --back: #f6f7f9; --card: #fff; --text: #1b1f24; --soft: #5c6570; --line: #dfe3e8; --good: #1a7f4b;
  --warn: #a15c00; --bad: #c02a37; --busy: #1f6fb4; --c0: #1f6fb4; --c1: #d6541c; --c2: #2a8c4a; --c3: #a03ca8;
  --c4: #8a6a12; --c5: #0f8f94; --c6: #c22f5c; --c7: #4a52b8; --c8: #aab1ba; --p0: #2f7d5b; --p1: #d98c1f;
  --p2: #c2503f; --p3: #4a7fc1; --p4: #8a63b5; --p5: #b4bac2; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --back: #111418; --card: #1a1e24; --text: #e4e7eb; --soft: #98a2ae;
  --line: #2e343c; --good: #57c98b; --warn: #e0a44a; --bad: #ff7b7b; --busy: #6bb2f0; --c0: #6bb2f0; --c1: #ff9a66;
  --c2: #6fd08c; --c3: #dd8ce3; --c4: #d8b95a; --c5: #5fd3d8; --c6: #ff86ab; --c7: #9aa2ff; --c8: #59616b;
  --p0: #4aa67e; --p1: #e0a44a; --p2: #e0786a; --p3: #6f9fdb; --p4: #ab8ad4; --p5: #59616b; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; margin: 0 auto; max-width: 1240px;
  padding: 24px 20px 48px; background: var(--back); color: var(--text); }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 4px 14px; margin-bottom: 16px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 0 0 10px; }
header p { margin: 0; color: var(--soft); flex-basis: 100%; overflow-wrap: anywhere; }
section, .tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
section { padding: 16px 18px; margin-top: 16px; }
.state { font-weight: 600; padding: 1px 12px; border-radius: 99px; border: 1.5px solid; font-size: 14px; }
.state.good { color: var(--good); } .state.warn { color: var(--warn); } .state.bad { color: var(--bad); }
.state.busy { color: var(--busy); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(175px, 1fr)); gap: 12px; }
.tile { padding: 12px 16px; } .tile p { margin: 0; color: var(--soft); font-size: 13.5px; }
.tile .value { font-size: 27px; line-height: 1.3; font-weight: 650; color: var(--text);
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.tile.main .value { color: var(--busy); }
.findings { margin: 0; padding: 0; list-style: none; display: grid; gap: 10px; }
.findings li { border-left: 4px solid var(--warn); padding-left: 12px; } .findings li.bad { border-color: var(--bad); }
.findings li.note { border-color: var(--line); }
.findings p { margin: 0; color: var(--soft); } .findings b { font-weight: 600; overflow-wrap: anywhere; }
.nothing { margin: 0; color: var(--good); font-weight: 600; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 18px; }
figure { margin: 0; position: relative; min-width: 0; }
figcaption { font-weight: 600; display: flex; justify-content: space-between; gap: 1em; overflow-wrap: anywhere; }
figcaption label { font-weight: 400; color: var(--soft); font-size: 13px; white-space: nowrap; }
figcaption input { vertical-align: -2px; margin: 0 4px 0 0; }
svg { width: 100%; height: auto; display: block; touch-action: pan-y; } svg text { font-size: 12px; fill: var(--soft); }
svg text.mark { fill: var(--text); font-weight: 600;
  paint-order: stroke; stroke: var(--card); stroke-width: 4px; }
figure:has(.use-log:checked) svg.linear, figure:has(.use-log:not(:checked)) svg.log { display: none; }
.grid { stroke: var(--line); } .axis { stroke: var(--soft); fill: none; } .cross { stroke: var(--soft); }
path.dashed { stroke-dasharray: 5 4; } path.raw { opacity: .3; stroke-width: 1; }
.dims .curve:not(.lit) { opacity: .12; } .curve.lit path { stroke-width: 3; }
.tip { position: absolute; pointer-events: none; background: var(--card); border: 1px solid var(--line); z-index: 2;
  border-radius: 8px; padding: 6px 10px; font-size: 13px; box-shadow: 0 3px 12px #0003; white-space: nowrap; }
.legend { margin: 4px 0 0; font-size: 13.5px; } .legend span { display: inline-block; margin-right: 16px; }
.legend span::before { content: ""; display: inline-block; width: 22px; margin-right: 7px; vertical-align: middle;
  border-top: 3px solid; } .legend span.dashed::before { border-top-style: dashed; }
.legend.parts span::before { width: 12px; height: 12px; border: 0; border-radius: 3px; }
.bar { display: flex; height: 26px; border-radius: 6px; overflow: hidden; } .bar span { min-width: 1px; }
.bars .bar { height: 14px; border-radius: 4px; } table.bars { width: 100%; } td.wide { width: 75%; }
.scroll { overflow-x: auto; } table.runs { width: 100%; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { padding: 5px 12px 5px 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
tr:last-child > * { border-bottom: 0; } .bars th, .bars td { border: 0; vertical-align: middle; padding: 2px 12px 2px 0; }
.bars th { font-weight: 400; overflow-wrap: anywhere; } th { font-weight: 600; } td.number, th.number { text-align: right; white-space: nowrap; }
td { overflow-wrap: anywhere; } .runs td, .runs th { white-space: nowrap; overflow-wrap: normal; }
.runs tbody th { white-space: normal; overflow-wrap: anywhere; min-width: 140px; }
.runs thead th { cursor: pointer; color: var(--soft); } .runs tbody tr:hover { background: var(--back); }
.runs .best { color: var(--good); font-weight: 650; } .runs .bad { color: var(--bad); font-weight: 600; }
.runs .warn { color: var(--warn); }
.dot { display: inline-block; width: 11px; height: 11px; border-radius: 50%; margin-right: 8px; vertical-align: -1px; }
.pairs { display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; margin: 12px 0 0; }
.pairs dt { color: var(--soft); } .pairs dd { margin: 0; overflow-wrap: anywhere; }
.set { color: var(--soft); } details { margin-top: 12px; } details details { margin-left: 14px; }
summary { cursor: pointer; color: var(--soft); font-weight: 600; } details > :not(summary) { margin-top: 10px; }
code, pre { font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
code.command { display: block; background: var(--back); border-radius: 6px; padding: 8px 12px; }
.samples { display: flex; gap: 14px; overflow-x: auto; align-items: flex-start; }
.samples figure { flex: 0 0 auto; max-width: min(100%, 420px); } .samples pre { max-width: 420px; margin: 0; }
img { max-width: 100%; image-rendering: pixelated; border-radius: 4px; display: block; }
@media (max-width: 560px) { body { padding: 14px 10px 32px; } section { padding: 14px 12px; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 8px; } .tile { padding: 10px 12px; }
  .tile:last-child:nth-child(odd) { grid-column: 1 / -1; } .tile .value { font-size: 21px; }
  .pairs { grid-template-columns: 1fr; gap: 0; } .pairs dd { margin-bottom: 8px; } svg text { font-size: 17px; }
  td.wide { width: 50%; } .legend { font-size: 13px; } }
)";

/// Returns the CSS classes of each color. The first letter of a class says which part of a page has the color: c for
/// curves, m for marks, l for lines in a legend, p for parts of bars, k for the names of these parts in a legend.
std::string color_classes() {
  OutText text;
  for (int i = 0; i <= kGray; ++i) {
    text << ".c" << i << "{stroke:var(--c" << i << ");fill:none;stroke-width:1.8}.m" << i << "{background:var(--c" << i
         << ");fill:var(--c" << i << ")}.l" << i << "::before{border-top-color:var(--c" << i << ")!important}";
  }
  constexpr int kPartColors = 6;
  for (int i = 0; i < kPartColors; ++i) {
    text << ".p" << i << ",.k" << i << "::before{background:var(--p" << i << ")}";
  }
  return text.str();
}

}  // namespace

std::string make_page(const std::string& title, const std::string& body, std::optional<int> refresh_s) {
  return kHead +
         (refresh_s ? "<meta http-equiv='refresh' content='" + std::to_string(*refresh_s) + "'>" : std::string()) +
         "<title>" + escape_html(title) + "</title><style>" + kStyle + color_classes() + "</style></head><body>\n" +
         body + "<script>" + kPageScript + "</script></body></html>\n";
}

bool is_page(std::string_view head) { return head.starts_with(kHead); }

std::string section(const std::string& heading, const std::string& content) {
  return content.empty() ? "" : "<section><h2>" + escape_html(heading) + "</h2>" + content + "</section>\n";
}

std::string folded(const std::string& summary, const std::string& content) {
  return content.empty()
             ? ""
             : "<details><summary>" + escape_html(summary) + "</summary><div>" + content + "</div></details>\n";
}

}  // namespace mn::report

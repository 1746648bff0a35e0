#include <mn/report/html_page.hpp>

#include <page_parts.hpp>

#include <mn/core/classic_stream.hpp>
#include <mn/report/chart.hpp>
#include <mn/report/format.hpp>

namespace mn::report {
namespace {

constexpr const char* kHead =
    "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width'>";

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
         body + "<script>" + kScript + "</script></body></html>\n";
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

#include <mn/report/rate_search.hpp>

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>
#include <vector>

#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/report/chart.hpp>
#include <mn/report/format.hpp>
#include <mn/report/html_page.hpp>

namespace mn::report {
namespace {

/// Makes a curve of `values` over the logarithms of `rates`. Leaves out values that are not finite.
Curve curve_over_rates(std::string name, const nlohmann::json& rates, const nlohmann::json& values, int color) {
  Curve curve{.name = std::move(name), .points = {}, .color = color};
  for (std::size_t i = 0; i < std::min(rates.size(), values.size()); ++i) {
    if (values[i].is_number()) curve.points.emplace_back(std::log10(rates[i].get<double>()), values[i].get<double>());
  }
  return curve;
}

}  // namespace

std::string rate_search(const std::filesystem::path& out) {
  const std::filesystem::path path = out / "rate_search.json";
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return "";
  std::string html;
  read_json(path.string(), [&] {
    const auto file = nlohmann::json::parse(read_file(path));
    std::vector<Curve> curves = {curve_over_rates("loss", file.at("rates"), file.at("losses"), 7),
                                 curve_over_rates("smoothed", file.at("rates"), file.at("smoothed"), 0)};
    std::string text = "The loss fell at none of the rates.";
    if (file.at("proposed").is_number()) {
      const double proposed = file.at("proposed").get<double>(), x = std::log10(proposed);
      const auto [least, most] = std::ranges::minmax(curves[0].points, {}, &std::pair<double, double>::second);
      curves.push_back({.name = "proposed: " + short_number(proposed),
                        .points = {{x, least.second}, {x, most.second}},
                        .color = 1,
                        .dashed = true});
      text = "The loss falls fastest at the learning rate " + short_number(proposed) + ".";
    }
    html = section("Search for the learning rate", "<p>" + text + "</p><div class='charts'>" +
                                                       draw_chart({.title = "loss over the learning rate",
                                                                   .x_label = "learning rate, as a power of ten",
                                                                   .curves = std::move(curves)}) +
                                                       "</div>");
  });
  return html;
}

}  // namespace mn::report

#include <mn/report/metrics.hpp>

#include <algorithm>
#include <string_view>

#include <mn/core/slow_rank.hpp>
#include <mn/report/format.hpp>

namespace mn::report {
namespace {

using nlohmann::json;

constexpr const char* kSpeed = "images_per_second";
constexpr std::string_view kBytes = "bytes";  // word in the names of metrics that count bytes: "bytes_per_step"
constexpr std::string_view kValidated = "validation/";
constexpr double kMiB = 1 << 20;

/// Factor from a value of the log to the shown value.
double scale_of(const Run& run, const std::string& metric) {
  if (metric == kSpeed) return run.facts.units_per_sample;
  return metric.find(kBytes) == std::string::npos ? 1 : 1 / kMiB;
}

bool is_loss(const std::string& metric) { return metric.ends_with("loss"); }

std::string option_of(const Run& run, const std::string& name) {
  const auto found = run.options.find(name);
  return found == run.options.end() ? std::string() : found->second;
}

}  // namespace

bool count_epochs(const std::vector<Run>& runs) {
  return std::ranges::all_of(runs, [](const Run& run) {
    return std::ranges::all_of(run.log, [&](const auto& entry) { return epoch_of(run, entry).has_value(); });
  });
}

std::vector<std::pair<double, double>> points_of(const Run& run, const std::string& metric, bool by_epoch) {
  const double scale = scale_of(run, metric);
  std::vector<std::pair<double, double>> points;
  for (const json& entry : run.log) {
    const auto value = entry.find(metric);
    if (value == entry.end() || !value->is_number()) continue;
    points.emplace_back(by_epoch ? *epoch_of(run, entry) : entry.at("iteration").get<double>(),
                        value->get<double>() * scale);
  }
  return points;
}

std::optional<MetricValues> values_of(const Run& run, const std::string& metric, bool by_epoch) {
  const auto points = points_of(run, metric, by_epoch);
  if (points.empty()) return std::nullopt;
  MetricValues values = {.last = points.back().second, .best = points.back().second, .best_at = {}};
  const auto better = better_in(run, metric);
  if (!better) return values;
  const auto value = &std::pair<double, double>::second;
  values.point = *better == Better::kLower ? *std::ranges::min_element(points, {}, value)
                                           : *std::ranges::max_element(points, {}, value);
  values.best = values.point->second;
  const bool has_epochs = count_epochs({run});
  for (const auto& [x, y] : points_of(run, metric, has_epochs)) {
    if (y != values.best) continue;
    values.best_at = (has_epochs ? "epoch " : "iteration ") + short_number(x);
    break;
  }
  return values;
}

bool is_constant(const std::vector<Run>& runs, const std::string& metric) {
  bool repeats = false;
  for (const Run& run : runs) {
    const auto points = points_of(run, metric, false);
    repeats = repeats || points.size() > 1;
    for (const auto& [x, value] : points) {
      if (value != points.front().second) return false;
    }
  }
  return repeats;
}

std::optional<Better> better_in(const Run& run, const std::string& metric) {
  const std::string said = option_of(run, "monitor") == metric ? option_of(run, "monitor-better") : "";
  if (said == "lower") return Better::kLower;
  if (said == "higher") return Better::kHigher;
  return better_of(metric);
}

std::string main_metric(const Run& run) {
  const auto names = metrics_of(run);
  const std::string monitored = option_of(run, "monitor");
  if (!is_loss(monitored) && std::ranges::find(names, monitored) != names.end()) return monitored;
  const auto find = [&](bool validated, bool loss) {
    const auto found = std::ranges::find_if(names, [&](const std::string& name) {
      const bool is_main = name.starts_with(validated ? "validation/" : "main/");
      return is_main && is_loss(name) == loss && better_in(run, name).has_value();
    });
    return found == names.end() ? std::string() : *found;
  };
  for (const bool validated : {true, false}) {
    for (const bool loss : {false, true}) {
      if (std::string found = find(validated, loss); !found.empty()) return found;
    }
  }
  return "";
}

std::string training_metric(const std::string& metric) {
  return metric.starts_with(kValidated) ? metric.substr(kValidated.size()) : "";
}

std::string shown_name(const Run& run, const std::string& metric) {
  if (metric == kSpeed) return unit_of(run) + "/s";
  if (metric == "lr") return "learning rate";
  if (metric.starts_with("lr/")) return "learning rate of " + metric.substr(3);
  std::string name = metric;
  if (const auto at = name.find(kBytes); at != std::string::npos) name.replace(at, kBytes.size(), "MiB");
  const bool validated = name.starts_with(kValidated);
  if (validated) name = name.substr(kValidated.size());
  const bool trained = name.starts_with("main/");
  if (trained) name = name.substr(5);
  std::ranges::replace(name, '_', ' ');
  return (validated ? "validation " : trained ? "training " : "") + name;
}

double speed_of(const Run& run) {
  std::vector<double> values;
  for (const auto& [x, y] : points_of(run, kSpeed, false)) values.push_back(y);
  return values.empty() ? 0 : lower_median(values);
}

std::string unit_of(const Run& run) { return run.facts.unit; }

}  // namespace mn::report

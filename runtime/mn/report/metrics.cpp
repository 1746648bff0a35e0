#include <mn/report/metrics.hpp>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <mn/core/slow_rank.hpp>
#include <mn/report/format.hpp>

namespace mn::report {
namespace {

using nlohmann::json;

constexpr std::string_view kBytes = "bytes";  // in the name of a metric that counts bytes: "bytes_per_step"
constexpr std::string_view kValidated = "validation/";
constexpr std::string_view kOfMain = "/main/";  // between a validation set and the name of its value
constexpr double kMiB = 1 << 20;

/// Returns the factor by which the page multiplies the log's values of a metric.
double scale_of(const Run& run, const std::string& metric) {
  if (metric == kSpeed) return run.facts.units_per_sample;
  return metric.find(kBytes) == std::string::npos ? 1 : 1 / kMiB;
}

bool is_loss(const std::string& metric) { return metric.ends_with("loss"); }

std::string option_of(const Run& run, const std::string& name) {
  const auto found = run.options.find(name);
  return found == run.options.end() ? std::string() : found->second;
}

/// Returns "validation/" or, if all sets have names, "validation/SET/" of the first set in --val, or of the first
/// logged set if the log lacks it.
std::string main_validation(const Run& run) {
  std::set<std::string> validations;
  for (const std::string& name : metrics_of(run)) {
    const auto at = name.find(kOfMain);
    if (name.starts_with(kValidated) && at != std::string::npos) validations.insert(name.substr(0, at + 1));
  }
  if (validations.empty() || validations.contains(std::string(kValidated))) return std::string(kValidated);
  const std::string sets = option_of(run, "val");  // "SET=DIR,SET=DIR"
  const std::string first = std::string(kValidated) + sets.substr(0, sets.find('=')) + "/";
  return validations.contains(first) ? first : *validations.begin();
}

}  // namespace

std::string logged_name(const Run& run, const std::string& metric) {
  const bool is_logged = std::ranges::any_of(run.log, [&](const json& entry) { return entry.contains(metric); });
  if (is_logged || !metric.starts_with(kValidated) || metric.find(kOfMain) != kValidated.size() - 1) return metric;
  return main_validation(run) + metric.substr(kValidated.size());
}

std::string common_name(const Run& run, const std::string& metric) {
  const std::string validation = main_validation(run);
  return metric.starts_with(validation) ? std::string(kValidated) + metric.substr(validation.size()) : metric;
}

bool count_epochs(const std::vector<Run>& runs) {
  return std::ranges::all_of(runs, [](const Run& run) {
    return std::ranges::all_of(run.log, [&](const auto& entry) { return epoch_of(run, entry).has_value(); });
  });
}

std::vector<std::pair<double, double>> points_of(const Run& run, const std::string& metric, bool by_epoch) {
  const double scale = scale_of(run, metric);
  const std::string name = logged_name(run, metric);
  std::vector<std::pair<double, double>> points;
  for (const json& entry : run.log) {
    const auto value = entry.find(name);
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
  const std::string said =
      logged_name(run, option_of(run, "monitor")) == logged_name(run, metric) ? option_of(run, "monitor-better") : "";
  if (said == "lower") return Better::kLower;
  if (said == "higher") return Better::kHigher;
  return better_of(metric);
}

std::string main_metric(const Run& run) {
  const auto names = metrics_of(run);
  const std::string monitored = logged_name(run, option_of(run, "monitor"));
  if (!is_loss(monitored) && std::ranges::find(names, monitored) != names.end()) return monitored;
  const std::string validation(kValidated), main = main_validation(run) + "main/";
  const std::pair<std::string, bool> kinds[] = {{main, false},      {validation, false}, {main, true},
                                                {validation, true}, {"main/", false},    {"main/", true}};
  for (const auto& [begin, loss] : kinds) {
    const auto found = std::ranges::find_if(names, [&](const std::string& name) {
      return name.starts_with(begin) && is_loss(name) == loss && better_in(run, name).has_value();
    });
    if (found != names.end()) return *found;
  }
  return "";
}

bool is_validated(const std::string& metric) { return metric.starts_with(kValidated); }

std::string shown_name(const Run& run, const std::string& metric) {
  if (metric == kSpeed) return run.facts.unit + "/s";
  if (metric == "lr") return "learning rate";
  if (metric.starts_with("lr/")) return "learning rate of " + metric.substr(3);
  std::string name = logged_name(run, metric);
  if (const auto at = name.find(kBytes); at != std::string::npos) name.replace(at, kBytes.size(), "MiB");
  std::string of;
  if (is_validated(name)) {
    name = name.substr(kValidated.size());
    of = "validation ";
    if (const auto at = name.find(kOfMain); at != std::string::npos) {
      of += name.substr(0, at) + " ";
      name = name.substr(at + 1);
    }
  }
  if (name.starts_with("main/")) {
    name = name.substr(5);
    if (of.empty()) of = "training ";
  }
  std::ranges::replace(name, '_', ' ');
  return of + name;
}

std::string shown_name(const std::vector<Run>& runs, const std::string& metric) {
  std::set<std::string> names;
  for (const Run& run : runs) {
    if (values_of(run, metric)) names.insert(shown_name(run, metric));
  }
  if (names.size() == 1) return *names.begin();
  return metric == kSpeed && !names.empty() ? "speed" : shown_name(Run(), metric);
}

double speed_of(const Run& run) {
  std::vector<double> values;
  for (const auto& [x, y] : points_of(run, kSpeed, false)) values.push_back(y);
  return values.empty() ? 0 : lower_median(values);
}

}  // namespace mn::report

#include <mn/trainer/extensions/monitor.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/suggest.hpp>
#include <mn/core/text.hpp>

namespace mn::extensions {
namespace {

/// Returns "validation/" for "validation/main/loss" and for "validation/clean/main/loss".
std::string_view source_of(std::string_view name) { return name.substr(0, name.find('/') + 1); }

std::string name_of(Better better) { return better == Better::kLower ? "lower" : "higher"; }

bool is_near(std::string_view a, std::string_view b) {
  const std::string other(b);
  return a == b || nearest_name(a, std::span(&other, 1)).has_value();
}

/// True for a name such as "accuracy"; names with "_", such as "the_accuracy", are not usual.
bool is_usual(std::string_view metric) {
  return metric.find('_') == std::string_view::npos && better_of(std::string(metric)).has_value();
}

}  // namespace

std::optional<std::string> misspelled(const std::string& value, const std::vector<std::string>& names) {
  const auto parts = split(value, '/');
  for (const std::string& name : names) {
    const auto others = split(name, '/');
    if (others.size() != parts.size()) continue;
    const bool same_metric = parts.back() == others.back();
    if (!same_metric && is_usual(parts.back())) continue;
    if (std::ranges::equal(parts, others, is_near)) return name;
  }
  return std::nullopt;
}

void check_monitored(const std::string& value) {
  for (const char* own : {"elapsed_time", "images_per_second", "bytes_per_step"}) {
    if (value == own) throw UsageError("\"" + value + "\" can't be monitored: each rank measures its own");
  }
}

Monitor::Monitor(const LogReport& log, std::string value, Better better, double min_delta)
    : log_(log), value_(std::move(value)), better_(better), min_delta_(min_delta) {
  check_monitored(value_);
  if (!(min_delta_ >= 0)) {
    throw UsageError("the least improvement that counts must be at least 0, got " + std::to_string(min_delta_));
  }
}

std::optional<bool> Monitor::improved() {
  if (std::exchange(read_, log_.count()) == log_.count()) return std::nullopt;
  const nlohmann::json& entry = log_.entries().back();
  const auto found = entry.find(value_);
  if (found == entry.end()) {
    if (!found_) check_name(entry);
    return std::nullopt;
  }
  found_ = true;
  const double value = found->is_number() ? found->get<double>() : std::nan("");
  ++waited_;
  if (!std::isfinite(value)) return false;
  const bool is_better = better_ == Better::kLower ? value < best_ - min_delta_ : value > best_ + min_delta_;
  if (has_best_ && !is_better) return false;
  has_best_ = true;
  best_ = value;
  waited_ = 0;
  return true;
}

/// Throws only if the name looks misspelled, because a report may come before the metric's first value.
void Monitor::check_name(const nlohmann::json& entry) {
  std::vector<std::string> names;
  for (const auto& [name, value] : entry.items()) names.push_back(name);
  const std::string text = "the log has no value \"" + value_ + "\" to monitor; it has " + join(names);
  if (const auto near = misspelled(value_, names)) throw UsageError(text + "; did you mean " + *near + "?");
  const std::string_view source = source_of(value_);
  const bool has_source =
      !source.empty() && std::ranges::any_of(names, [&](const std::string& name) { return name.starts_with(source); });
  if (!has_source || std::exchange(warned_, true)) return;
  log_info(text + ": reports without it do not count");  // log_info() writes on rank 0 only
}

std::string Monitor::wait_text() const {
  const std::string least = min_delta_ > 0 ? " by more than " + nlohmann::json(min_delta_).dump() : "";
  return value_ + " was not better" + least + " in " + std::to_string(waited_) + " reports (" +
         (has_best_ ? "best " + nlohmann::json(best_).dump() : "never a number") + ")";
}

nlohmann::json Monitor::state() const {
  return {{"value", value_},
          {"better", name_of(better_)},
          {"best", has_best_ ? nlohmann::json(best_) : nlohmann::json()},
          {"waited", waited_}};
}

bool Monitor::load_state(const nlohmann::json& state) {
  has_best_ = false;
  waited_ = 0;
  const std::string value = state.at("value").get<std::string>(), better = state.at("better").get<std::string>();
  if (value != value_ || better != name_of(better_)) {
    log_info("until now " + value + " was monitored, where " + better + " is better, and from now on " + value_ +
             ", where " + name_of(better_) + " is better: the search for the best value starts again");
    return false;
  }
  const nlohmann::json& best = state.at("best");
  has_best_ = best.is_number();
  best_ = has_best_ ? best.get<double>() : 0;
  waited_ = whole_number<std::int64_t>(state.at("waited"));
  return true;
}

}  // namespace mn::extensions

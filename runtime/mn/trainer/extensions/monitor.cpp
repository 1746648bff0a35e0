#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/suggest.hpp>
#include <mn/core/text.hpp>
#include <mn/trainer/extensions/monitor.hpp>

namespace mn::extensions {
namespace {

/// "validation/main/" of "validation/main/loss".
std::string_view source_of(std::string_view name) { return name.substr(0, name.rfind('/') + 1); }

}  // namespace

void check_monitored(const std::string& value) {
  for (const char* own : {"elapsed_time", "images_per_second", "bytes_per_step"}) {
    if (value == own) throw UsageError("\"" + value + "\" can't be monitored: each rank measures its own");
  }
}

Monitor::Monitor(const LogReport& log, std::string value, Better better)
    : log_(log), value_(std::move(value)), better_(better) {
  check_monitored(value_);
}

void Monitor::begin() { read_ = log_.entries().size(); }

std::optional<bool> Monitor::improved() {
  if (log_.entries().size() == read_) return std::nullopt;
  read_ = log_.entries().size();
  const nlohmann::json& entry = log_.entries().back();
  const auto found = entry.find(value_);
  if (found == entry.end()) {
    if (!found_) check_name(entry);
    return std::nullopt;
  }
  found_ = true;
  if (!found->is_number() || !std::isfinite(found->get<double>())) return false;
  const auto value = found->get<double>();
  if (has_best_ && !(better_ == Better::kLower ? value < best_ : value > best_)) return false;
  has_best_ = true;
  best_ = value;
  return true;
}

/// A report may come before the first evaluation. One that has other values of the same evaluation shows a wrong name,
/// and so does a name that is nearly another's.
void Monitor::check_name(const nlohmann::json& entry) const {
  std::vector<std::string> names;
  for (const auto& [name, value] : entry.items()) names.push_back(name);
  const std::string_view source = source_of(value_);
  const bool has_source =
      !source.empty() && std::ranges::any_of(names, [&](const std::string& name) { return name.starts_with(source); });
  const auto near = nearest_name(value_, names);
  if (!has_source && !(near && source_of(*near) == source)) return;
  throw UsageError("the log has no value \"" + value_ + "\" to monitor; it has " + join(names));
}

std::string Monitor::best_text() const { return has_best_ ? "best " + nlohmann::json(best_).dump() : "never a number"; }

nlohmann::json Monitor::state() const { return has_best_ ? nlohmann::json(best_) : nlohmann::json(); }

void Monitor::load_state(const nlohmann::json& state) {
  has_best_ = state.is_number();
  best_ = has_best_ ? state.get<double>() : 0;
}

}  // namespace mn::extensions

#include <cmath>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/monitor.hpp>

namespace mn::extensions {

Better better_of(const std::string& name) {
  return name.find("accuracy") == std::string::npos ? Better::kLower : Better::kHigher;
}

Monitor::Monitor(const LogReport& log, std::string value, Better better)
    : log_(log), value_(std::move(value)), better_(better) {
  for (const char* own : {"elapsed_time", "images_per_second", "bytes_per_step"}) {
    if (value_ == own) throw UsageError("\"" + value_ + "\" can't be monitored: each rank measures its own");
  }
}

bool Monitor::improved() {
  if (log_.entries().empty()) return false;
  const nlohmann::json& entry = log_.entries().back();
  const auto found = entry.find(value_);
  if (found == entry.end()) {
    std::string names;
    for (const auto& [name, value] : entry.items()) names += (names.empty() ? "" : ", ") + name;
    throw UsageError("the log has no value \"" + value_ + "\" to monitor; it has " + names);
  }
  if (!found->is_number() || !std::isfinite(found->get<double>())) return false;
  const auto value = found->get<double>();
  if (has_best_ && !(better_ == Better::kLower ? value < best_ : value > best_)) return false;
  has_best_ = true;
  best_ = value;
  return true;
}

std::string Monitor::best_text() const { return has_best_ ? "best " + nlohmann::json(best_).dump() : "never a number"; }

nlohmann::json Monitor::state() const { return has_best_ ? nlohmann::json(best_) : nlohmann::json(); }

void Monitor::load_state(const nlohmann::json& state) {
  has_best_ = state.is_number();
  best_ = has_best_ ? state.get<double>() : 0;
}

}  // namespace mn::extensions

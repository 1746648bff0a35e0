/// A snapshot of environment variables: what the launchers outside of this process say. Pure functions take it
/// instead of getenv().
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include <mn/core/ranks.hpp>

namespace mn::launcher {

class Variables {
 public:
  Variables() = default;
  explicit Variables(std::map<std::string, std::string> values) : values_(std::move(values)) {}
  [[nodiscard]] static Variables of_this_process();

  /// The value; no value if the variable is unset or empty.
  [[nodiscard]] std::optional<std::string> get(const std::string& name) const;
  /// The value as a whole number. Throws UsageError that names the variable if it is anything else.
  [[nodiscard]] std::optional<int> number(const std::string& name) const;
  /// As number(), but the variable is needed: UsageError that names it and `owner` if it is unset.
  [[nodiscard]] int needed(const std::string& name, const std::string& owner) const;
  /// get(), for the rules of mn/core/ranks.hpp. This must outlive it.
  [[nodiscard]] VariableLookup lookup() const {
    return [this](const char* name) { return get(name); };
  }
  [[nodiscard]] bool has(const std::string& name) const { return get(name).has_value(); }

  void set(const std::string& name, const std::string& value) { values_[name] = value; }
  [[nodiscard]] const std::map<std::string, std::string>& all() const noexcept { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace mn::launcher

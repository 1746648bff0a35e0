/// A snapshot of environment variables, which pure functions take as an argument instead of calling getenv().
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

  /// No value if the variable is unset or empty.
  [[nodiscard]] std::optional<std::string> get(const std::string& name) const;
  /// The value as a whole number; no value if the variable is unset or empty. Throws UsageError that names the variable
  /// if the text is not a number.
  [[nodiscard]] std::optional<int> number(const std::string& name) const;
  /// The value as a whole number. Throws UsageError, with the name of the launcher `owner`, if the variable is unset or
  /// no number.
  [[nodiscard]] int needed(const std::string& name, const std::string& owner) const;
  /// Returns get() as a function object, for the functions of mn/core/ranks.hpp. The Variables must outlive the result.
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

/// A snapshot of the environment variables. An argument of functions, so tests can choose the variables.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {

class Variables {
 public:
  Variables() = default;
  explicit Variables(std::map<std::string, std::string> values) : values_(std::move(values)) {}
  [[nodiscard]] static Variables of_this_process() {
    Variables variables;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string_view text(*entry);
      const std::size_t equals = text.find('=');
      if (equals != text.npos) variables.values_.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return variables;
  }

  [[nodiscard]] std::optional<std::string> get(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
  }
  /// No value if the variable is unset or empty. Throws UsageError if it is not a whole number.
  [[nodiscard]] std::optional<int> number(const std::string& name) const {
    const auto text = get(name);
    if (!text) return std::nullopt;
    if (const auto value = parse_number<int>(*text)) return *value;
    throw UsageError(name + " is \"" + *text + "\", which is not a whole number: unset or correct it");
  }
  /// Like number(), but throws a UsageError that names the launcher `owner` if the variable is unset.
  [[nodiscard]] int needed(const std::string& name, const std::string& owner) const {
    if (const auto value = number(name)) return *value;
    throw UsageError(owner + " started this process, but " + name + " is not set: start it with its whole environment");
  }
  /// Wraps get() for mn/core/launcher_variables.hpp. This object must outlive the result.
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

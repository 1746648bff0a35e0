#include "place/variables.hpp"

#include <charconv>
#include <string_view>

#include <unistd.h>

#include <mn/core/error.hpp>

namespace mn::launcher {

Variables Variables::of_this_process() {
  std::map<std::string, std::string> values;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) values.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return Variables(std::move(values));
}

std::optional<std::string> Variables::get(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::optional<int> Variables::number(const std::string& name) const {
  const auto text = get(name);
  if (!text) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) {
    throw UsageError(name + " is \"" + *text + "\", which is not a whole number: unset or correct it");
  }
  return value;
}

int Variables::needed(const std::string& name, const std::string& owner) const {
  if (const auto value = number(name)) return *value;
  throw UsageError(owner + " started this process, but " + name + " is not set: start it with its whole environment");
}

}  // namespace mn::launcher

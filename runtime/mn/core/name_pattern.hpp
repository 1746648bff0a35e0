/// Patterns for the names of modules and their parameters, for example "layer1.0.conv1.weight".
#pragma once

#include <string>
#include <string_view>

namespace mn {

/// True if `pattern` matches all of `name`, or the name of a module that contains the parameter `name`. For example,
/// "layer1" and "layer?" match "layer1.0.weight". As in fnmatch(3), `*` stands for any text (dots included), `?` stands
/// for one character, and [ab] stands for "a" or "b".
[[nodiscard]] bool matches_name(const std::string& pattern, std::string_view name);

}  // namespace mn

/// Patterns for the names of modules and their parameters, such as "layer1.0.conv1.weight".
#pragma once

#include <string>
#include <string_view>

namespace mn {

/// True if `pattern` matches all of `name`, or the name of a module that contains the parameter `name`: "layer1" and
/// "layer?" match "layer1.0.weight". As in fnmatch(3), `*` stands for any text, with or without dots, `?` for one
/// character, and [ab] for "a" or "b".
[[nodiscard]] bool matches_name(const std::string& pattern, std::string_view name);

}  // namespace mn

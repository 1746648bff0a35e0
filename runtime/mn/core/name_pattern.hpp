/// Patterns for the names of modules and their parameters, such as "layer1.0.conv1.weight".
#pragma once

#include <string>
#include <string_view>

namespace mn {

/// True if `pattern` matches the whole name, or the name of a module that the name lies in: "layer1" and "layer?" match
/// "layer1.0.weight". `*` stands for any text, with or without dots; `?` for one character; [ab] for "a" or "b" (as in
/// fnmatch(3)).
[[nodiscard]] bool matches_name(const std::string& pattern, std::string_view name);

}  // namespace mn

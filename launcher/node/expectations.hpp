/// What a site expects of a node: the file of --expect has lines KEY=VALUE, and a # begins a comment. The table in
/// expectations.cpp names the keys; some apply with a usual value even without a file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checks/findings.hpp"
#include "node/node_state.hpp"

namespace mn::launcher {

/// The values of the file by key. Only mount= may be given several times.
using Expectations = std::map<std::string, std::vector<std::string>>;

/// Throws UsageError, with the number of the line, if a key is unknown or a value is not of its kind.
[[nodiscard]] Expectations parse_expectations(const std::string& file, const std::string& text);

/// The findings of all rows of the table and of mount=.
[[nodiscard]] Findings compare_with_expectations(const NodeState& node, const Expectations& expected);

}  // namespace mn::launcher

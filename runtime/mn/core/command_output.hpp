/// Programs whose output answers a question.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace mn {

/// The standard output of `command`, whose program is looked for in PATH; empty if it can't be started, or takes longer
/// than `patience`: then it is killed. Its standard input is empty, its standard error lost. `setting`: NAME=VALUE for
/// its environment.
[[nodiscard]] std::string command_output(const std::vector<std::string>& command, std::chrono::milliseconds patience,
                                         const std::string& setting = "");

}  // namespace mn

/// Runs a command for its output.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace mn {

/// The standard output of `command`, a program of PATH with arguments. Empty if the program can't be started or runs
/// longer than `patience`; then it is killed. Standard input is empty, standard error dropped. `setting`: NAME=VALUE
/// added to the environment.
[[nodiscard]] std::string command_output(const std::vector<std::string>& command, std::chrono::milliseconds patience,
                                         const std::string& setting = "");

}  // namespace mn

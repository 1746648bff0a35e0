/// Runs a command and returns its output.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace mn {

/// Runs `command`, which has the name of a program in PATH and its arguments, and returns the program's standard
/// output. Returns an empty text if the program can't be started, or if it runs longer than `patience` and is killed.
/// The program's standard input is empty, and its standard error is dropped. `setting`, of the form NAME=VALUE, is
/// added to the program's environment.
[[nodiscard]] std::string command_output(const std::vector<std::string>& command, std::chrono::milliseconds patience,
                                         const std::string& setting = "");

}  // namespace mn

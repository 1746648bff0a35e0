/// Runs a command and returns its output.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace mn {

/// Runs `command`, a program found in PATH with its arguments, and returns its standard output. Returns an empty text
/// if the program can't be started. A program that runs longer than `patience` is killed, and the text is then empty,
/// too. Standard input is empty, and standard error is dropped. `setting`, of the form NAME=VALUE, is added to the
/// program's environment.
[[nodiscard]] std::string command_output(const std::vector<std::string>& command, std::chrono::milliseconds patience,
                                         const std::string& setting = "");

}  // namespace mn

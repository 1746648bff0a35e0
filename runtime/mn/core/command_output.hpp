/// Runs a command and returns the text that it prints.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace mn {

/// Runs command[0], a program in PATH, with the arguments that follow, and returns its standard output. Returns an
/// empty text if the program can't be started, or if it runs longer than `patience` and is killed. Its standard input
/// is empty, and its standard error is dropped. `setting`, of the form NAME=VALUE, is added to its environment.
[[nodiscard]] std::string command_output(const std::vector<std::string>& command, std::chrono::milliseconds patience,
                                         const std::string& setting = "");

/// Reads a pipe to its end. No value if the end does not come before `deadline`.
[[nodiscard]] std::optional<std::string> read_to_end(int fd, std::chrono::steady_clock::time_point deadline);

}  // namespace mn

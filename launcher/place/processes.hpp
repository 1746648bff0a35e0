/// The ancestors of this process, and close_from() for processes that stay behind.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <sys/types.h>

namespace mn::launcher {

/// The first word of the process's command line, without folders; empty if it can't be read.
[[nodiscard]] std::string program_of_process(pid_t process);

/// The parent's id; 0 if the id can't be read, or the parent is outside of this PID namespace.
[[nodiscard]] pid_t parent_process(pid_t process);

/// The process that started the ranks of this node: the nearest ancestor whose environment lacks `variable`, a variable
/// that every rank has. If that ancestor is a subshell, returns the shell that forked it. 0 if the process is not
/// known.
[[nodiscard]] pid_t starter_of_ranks(const std::string& variable);

/// The nearest ancestor that is a launcher's process, such as slurmstepd or mpiexec; 0: none.
[[nodiscard]] pid_t process_of_launcher();

/// When the process began, to a hundredth of a second. No value if it can't be read.
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> begin_of(pid_t process);

/// Closes the descriptor `first` and all higher descriptors. A copy of a pipe that stays open would keep the pipe's
/// reader waiting.
void close_from(int first);

}  // namespace mn::launcher

/// Finds out about the ancestors of this process. close_from() is for processes that stay behind at exec.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <sys/types.h>

namespace mn::launcher {

/// The first word of the command line, without folders; empty if it can't be read.
[[nodiscard]] std::string program_of_process(pid_t process);

/// 0 if the id can't be read, or if the parent is outside of this PID namespace.
[[nodiscard]] pid_t parent_process(pid_t process);

/// The process that started this node's ranks: the nearest ancestor without `variable`, which every rank has. For a
/// subshell, returns the shell that forked it. 0 if there is no such process.
[[nodiscard]] pid_t starter_of_ranks(const std::string& variable);

/// The nearest ancestor that is a launcher's process, such as slurmstepd or mpiexec; 0 if there is none.
[[nodiscard]] pid_t process_of_launcher();

/// The process's start time, to a hundredth of a second. No value if it can't be read.
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> begin_of(pid_t process);

/// Closes all descriptors from `first` on. A pipe's reader would wait for a kept write end.
void close_from(int first);

}  // namespace mn::launcher

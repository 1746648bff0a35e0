/// Finds out about the ancestors of this process. Also has close_from(), for processes that stay behind at exec.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <sys/types.h>

namespace mn::launcher {

/// The first word of the process's command line, without folders. Empty if the command line can't be read.
[[nodiscard]] std::string program_of_process(pid_t process);

/// The id of the parent of `process`. 0 if the id can't be read, or if the parent is outside of this PID namespace.
[[nodiscard]] pid_t parent_process(pid_t process);

/// The process that started this node's ranks: the nearest ancestor without `variable`, which every rank has. For a
/// subshell, returns the shell that forked it. 0 if there is no such process.
[[nodiscard]] pid_t starter_of_ranks(const std::string& variable);

/// The nearest ancestor that is a process of a launcher, such as slurmstepd or mpiexec. 0 if there is none.
[[nodiscard]] pid_t process_of_launcher();

/// The time at which the process began, to a hundredth of a second. No value if the time can't be read.
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> begin_of(pid_t process);

/// Closes all descriptors from `first` on. The reader of a pipe would wait for a process that kept the write end.
void close_from(int first);

}  // namespace mn::launcher

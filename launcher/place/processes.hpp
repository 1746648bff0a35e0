/// The processes above this one, and what a process that stays behind lets go.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <sys/types.h>

namespace mn::launcher {

/// The first word of its command line, without folders; empty if that can't be read.
[[nodiscard]] std::string program_of_process(pid_t process);

/// 0 if that can't be read, or is outside of this process's namespace.
[[nodiscard]] pid_t parent_process(pid_t process);

/// The nearest process above this one that was started without the variable, which each rank has: what started the
/// ranks of this node. A subshell of it counts as it. 0: not known.
[[nodiscard]] pid_t starter_of_ranks(const std::string& variable);

/// The nearest process above this one by which srun or an mpiexec starts the ranks of this node; 0: there is none.
[[nodiscard]] pid_t process_of_launcher();

/// When the process began, to a hundredth of a second. No value if that can't be read.
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> begin_of(pid_t process);

/// Closes all descriptors from this one on. A copy of a pipe that stays open would keep its reader waiting.
void close_from(int first);

}  // namespace mn::launcher

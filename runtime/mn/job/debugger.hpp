/// Detects a debugger: a process under a debugger stands still, but does not hang.
#pragma once

#include <sys/types.h>

namespace mn {

/// True if a debugger is attached to `process`; false also for an invisible process.
[[nodiscard]] bool has_debugger(pid_t process);

}  // namespace mn

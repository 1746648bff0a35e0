/// Whether a debugger holds a process: it then stands still, and does not hang.
#pragma once

#include <sys/types.h>

namespace mn {

/// False also for a process that this one cannot see.
[[nodiscard]] bool has_debugger(pid_t process);

}  // namespace mn

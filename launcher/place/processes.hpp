/// The processes above this one.
#pragma once

#include <sys/types.h>

namespace mn::launcher {

/// 0 if that can't be read, or is outside of this process's namespace.
[[nodiscard]] pid_t parent_process(pid_t process);

/// The nearest process above this one that is in another process group: a rank's launcher, be there scripts in between.
[[nodiscard]] pid_t process_above_group();

}  // namespace mn::launcher

/// Notices that the program calls exit() while its Job lives.
///
/// Invariants:
/// 1. The function is called at most once, by the thread that calls exit(), and not in a fork()ed child.
/// 2. ignore_exit() comes before MPI_Abort, which calls exit() too.
///
/// Source: on_exit(3) of the GNU C library, because atexit() does not tell the status.
#pragma once

#include <functional>

namespace mn {

/// exit(status) will call `on_exit(status)`. Replaces an earlier function.
void watch_exit(std::function<void(int status)> on_exit);
void ignore_exit() noexcept;

}  // namespace mn

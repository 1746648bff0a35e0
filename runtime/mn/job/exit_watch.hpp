/// Notices that the program calls exit() while its Job lives.
///
/// Invariants:
/// 1. The function is called once at most, by the thread that calls exit(), and not in a child that a fork() made.
/// 2. The end of a job leads through exit() too, in MPI_Abort: ignore_exit() comes before it.
///
/// Source: on_exit(3), of the GNU C library: atexit() does not tell the status.
#pragma once

#include <functional>

namespace mn {

/// `on_exit(status)` is called at exit(status). Replaces the function before.
void watch_exit(std::function<void(int status)> on_exit);
void ignore_exit() noexcept;

}  // namespace mn

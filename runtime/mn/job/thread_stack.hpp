/// Reads the stack of a different thread, even if that thread hangs, and detects a debugger.
#pragma once

#include <string>

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

namespace mn {

struct WatchedThread {
  pthread_t thread = pthread_self();
  pid_t id = gettid();
};

/// Installs the signal handler by which stack_of() reads a stack. The signal is SIGRTMAX − 1. If the program itself
/// handles this signal, the program's handler stays, and no stack can be read. Call prepare_stacks() once, before
/// stack_of().
void prepare_stacks();

/// Returns the names of the functions that the thread is executing, one on each line, the innermost first, at most
/// `depth` of them. If the thread takes no signal within a second (because it is stopped, or in an uninterruptible
/// call), returns the thread's state and the kernel function in which it waits. Call stack_of() on a different thread.
[[nodiscard]] std::string stack_of(const WatchedThread& watched, std::size_t depth = 24);

/// True if a debugger is attached to the process `process`, which then does not count as hanging. False if this process
/// cannot see `process`.
[[nodiscard]] bool has_debugger(pid_t process);

}  // namespace mn

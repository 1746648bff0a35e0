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

/// Installs the handler of SIGRTMAX − 1 by which stack_of() reads a stack; call this once, before stack_of(). If the
/// program handles this signal itself, its handler stays, and no stack can be read.
void prepare_stacks();

/// Returns the names of at most `depth` functions that the thread is executing, one on each line, the innermost first.
/// If the thread takes no signal within a second (it is stopped, or in an uninterruptible call), returns the thread's
/// state and the kernel function in which the thread waits. Call stack_of() on a different thread.
[[nodiscard]] std::string stack_of(const WatchedThread& watched, std::size_t depth = 24);

/// True if this process sees a debugger attached to `process`. Such a process does not count as hanging.
[[nodiscard]] bool has_debugger(pid_t process);

}  // namespace mn

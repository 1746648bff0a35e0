/// Takes the stack of a different thread, even if the thread hangs, and detects a debugger.
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

/// Installs the signal handler with which stack_of() reads a stack. The signal is SIGRTMAX − 1; if the program handles
/// that signal itself, its handler stays, and no stack can be read. Call once, before stack_of().
void prepare_stacks();

/// The names of the functions in which the thread is, one on each line, the innermost first, at most `depth` of them.
/// If the thread takes no signal within a second (stopped, or in an uninterruptible call), returns the thread's state
/// and the waiting kernel function. Call stack_of() on a different thread.
[[nodiscard]] std::string stack_of(const WatchedThread& watched, std::size_t depth = 24);

/// True if a debugger is attached to `process`; such a process does not count as hanging. False if this process cannot
/// see `process`.
[[nodiscard]] bool has_debugger(pid_t process);

}  // namespace mn

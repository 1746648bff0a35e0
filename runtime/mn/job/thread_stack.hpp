/// Takes the stack of another thread, which may hang, and detects a debugger.
#pragma once

#include <string>

#include <pthread.h>
#include <sys/types.h>

namespace mn {

struct WatchedThread {
  pthread_t thread = pthread_self();
  pid_t id = gettid();
};

/// Call once, before stack_of(): its signal is SIGRTMAX − 1, unless the program handles that signal.
void prepare_stacks();

/// The thread's function names from the innermost out, one a line, at most `depth` frames. If the thread takes no
/// signal within a second (stopped, or in an uninterruptible call): its state and the kernel's function. Call it on
/// another thread.
[[nodiscard]] std::string stack_of(const WatchedThread& watched, std::size_t depth = 24);

/// True if a debugger is attached to `process`, which then does not hang; false also for an invisible process.
[[nodiscard]] bool has_debugger(pid_t process);

}  // namespace mn

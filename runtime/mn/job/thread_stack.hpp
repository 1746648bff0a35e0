/// Takes the stack of another thread, which may hang.
#pragma once

#include <string>

#include <pthread.h>
#include <sys/types.h>

namespace mn {

/// A thread to pass to stack_of().
struct WatchedThread {
  pthread_t thread = pthread_self();
  pid_t id = gettid();
};

/// Installs the handler of stack_of()'s signal (SIGRTMAX − 1, unless the program handles that signal). Call once,
/// before stack_of().
void prepare_stacks();

/// The thread's function names from the innermost out, one a line, at most `depth` frames. If the thread takes no
/// signal within a second (stopped, or in an uninterruptible call): its state and the kernel's function. Call it on
/// another thread.
[[nodiscard]] std::string stack_of(const WatchedThread& watched, std::size_t depth = 24);

}  // namespace mn

/// The stack of a thread that may hang, taken by another.
#pragma once

#include <string>

#include <pthread.h>
#include <sys/types.h>

namespace mn {

/// Names a thread for stack_of().
struct WatchedThread {
  pthread_t thread = pthread_self();
  pid_t id = gettid();
};

/// Installs the handler of the signal that stack_of() sends (SIGRTMAX − 1, unless the program handles that itself).
/// Once, before stack_of().
void prepare_stacks();

/// Function names from the innermost out, one a line, of at most `depth` frames. Where the thread takes no signal
/// within a second (it is stopped, or in an uninterruptible call), its state and the kernel's function. Not from that
/// thread.
[[nodiscard]] std::string stack_of(const WatchedThread& watched, std::size_t depth = 24);

}  // namespace mn

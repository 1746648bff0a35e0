/// Threads that leave signals to the program.
#pragma once

#include <initializer_list>

#include <pthread.h>
#include <signal.h>

namespace mn {

/// While it lives, this thread takes no signals but faults. A thread that is started meanwhile takes none for as long
/// as it runs: the program's handlers run where they did before.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t all;
    sigfillset(&all);
    // A fault that is blocked would end the process without its handler, and so without a message.
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, fault);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_ = {};
};

}  // namespace mn

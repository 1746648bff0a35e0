/// Blocks signals in mn's threads, because the program's threads handle signals.
#pragma once

#include <initializer_list>

#include <pthread.h>
#include <signal.h>

namespace mn {

/// While a BlockedSignals lives, the thread that made it takes no signals except faults like SIGSEGV. Threads started
/// meanwhile block these signals for their whole life.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t all;
    sigfillset(&all);
    // A blocked fault would end the process without a call of the handler, and no message would name the reason.
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

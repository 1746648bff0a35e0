#include <mn/core/inherited_signals.hpp>

#include <csignal>

namespace mn {
namespace {

struct InheritedSignals {
  sigset_t blocked = {};
  bool ignores_children = false;

  InheritedSignals() noexcept {
    sigprocmask(SIG_BLOCK, nullptr, &blocked);
    ignores_children = ignores_children_now();
  }
  static bool ignores_children_now() noexcept {
    struct sigaction action = {};
    return sigaction(SIGCHLD, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
  }
};

const InheritedSignals inherited;  // made before main(): later the program may change the settings

}  // namespace

void reset_inherited_signals() noexcept {
  pthread_sigmask(SIG_UNBLOCK, &inherited.blocked, nullptr);
  if (inherited.ignores_children && InheritedSignals::ignores_children_now()) std::signal(SIGCHLD, SIG_DFL);
}

}  // namespace mn

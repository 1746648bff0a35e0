#include <mn/trainer/signals.hpp>

namespace mn {
namespace {

volatile std::sig_atomic_t g_raised = 0;

void raise_flag(int) { g_raised = 1; }

}  // namespace

SignalFlag::SignalFlag(bool enabled) : enabled_(enabled) {
  if (!enabled_) return;
  g_raised = 0;
  struct sigaction action = {};
  action.sa_handler = raise_flag;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, &old_term_);
  sigaction(SIGUSR1, &action, &old_usr1_);
}

SignalFlag::~SignalFlag() {
  if (!enabled_ || kept_) return;
  sigaction(SIGTERM, &old_term_, nullptr);
  sigaction(SIGUSR1, &old_usr1_, nullptr);
}

bool SignalFlag::raised() const noexcept { return enabled_ && g_raised != 0; }

}  // namespace mn

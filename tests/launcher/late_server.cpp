// Preloaded into mpiexec: the server's main thread falls behind the PMIx thread, as on a node with more work than
// cores.
#include <chrono>
#include <thread>

#include <dlfcn.h>
#include <unistd.h>

extern "C" void event_active(void* event, int result, short calls) {
  static const auto real = reinterpret_cast<decltype(&event_active)>(dlsym(RTLD_NEXT, "event_active"));
  real(event, result, calls);
  if (gettid() == getpid()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

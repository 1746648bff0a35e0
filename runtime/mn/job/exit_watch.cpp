#include <mn/job/exit_watch.hpp>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>

#include <unistd.h>

namespace mn {
namespace {

// An exit handler gets only the status: its inputs lie here.
std::function<void(int)> function;
std::atomic<pid_t> watched_process = 0;  // 0: none

void handle_exit(int status, void* /*argument*/) {
  pid_t own = getpid();
  if (watched_process.compare_exchange_strong(own, 0)) function(status);  // (1)
}

}  // namespace

void watch_exit(std::function<void(int status)> on_exit) {
  static std::once_flag once;
  std::call_once(once, [] { ::on_exit(handle_exit, nullptr); });
  function = std::move(on_exit);
  watched_process = getpid();
}

void ignore_exit() noexcept { watched_process = 0; }

}  // namespace mn

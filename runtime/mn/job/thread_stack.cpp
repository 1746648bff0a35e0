#include <mn/job/thread_stack.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

#include <boost/core/demangle.hpp>
#include <execinfo.h>

#include <mn/core/small_files.hpp>

namespace mn {
namespace {

constexpr auto kSignalTime = std::chrono::seconds(1);
constexpr std::size_t kHandlerFrames = 2;  // the handler's own frame, and the kernel's frame below

// A handler gets only the signal, so its results are global.
std::array<void*, 64> frames;
std::atomic<int> frame_count = 0;
std::atomic<bool> is_prepared = false;

int stack_signal() { return SIGRTMAX - 1; }

void take_stack(int /*signal*/) {
  const int saved_errno = errno;
  frame_count = backtrace(frames.data(), static_cast<int>(frames.size()));
  errno = saved_errno;
}

/// Returns the function in a symbol such as "/usr/lib/libmpi.so.40(MPI_Allreduce+0x1c) [0x7f…]", or the file and the
/// offset if the symbol has no name.
std::string function_of(const std::string& symbol) {
  const auto open = symbol.find('('), plus = symbol.find('+', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || plus == std::string::npos) return symbol;
  const std::string name = symbol.substr(open + 1, plus - open - 1);
  if (name.empty()) {
    const std::string file = symbol.substr(0, open);
    return file.substr(file.rfind('/') + 1) + symbol.substr(plus, symbol.find(')', plus) - plus);
  }
  const std::string text = boost::core::demangle(name.c_str());
  return text.substr(0, text.find('('));
}

std::string state_of(pid_t thread) {
  const std::string folder = "/proc/self/task/" + std::to_string(thread);
  const std::string line = first_line(folder + "/stat").value_or("");
  // The line is "pid (name) state …" (proc(5)), and the name may have parentheses.
  const auto end = line.rfind(')');
  const std::string state = end == std::string::npos ? "?" : line.substr(end + 2, 1);
  const std::string in_kernel = first_line(folder + "/wchan").value_or("");
  return "takes no signal: state " + state +
         (in_kernel.empty() || in_kernel == "0" ? "" : ", in the kernel's " + in_kernel) + "\n";
}

}  // namespace

void prepare_stacks() {
  struct sigaction before = {};
  if (sigaction(stack_signal(), nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return;
  backtrace(frames.data(), 1);  // loads libgcc now, because a handler must not load libraries
  struct sigaction action = {};
  action.sa_handler = take_stack;
  // SA_RESTART: system calls of the program continue after the signal.
  action.sa_flags = SA_RESTART;
  is_prepared = sigaction(stack_signal(), &action, nullptr) == 0;
}

std::string stack_of(const WatchedThread& watched, std::size_t depth) {
  if (!is_prepared) return "";
  frame_count = 0;
  if (pthread_kill(watched.thread, stack_signal()) != 0) return "";
  // A thread in an uninterruptible sleep takes no signal.
  const auto end = std::chrono::steady_clock::now() + kSignalTime;
  while (frame_count == 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const int count = frame_count;
  if (count == 0) return state_of(watched.id);
  const std::unique_ptr<char*, decltype(&std::free)> symbols(backtrace_symbols(frames.data(), count), &std::free);
  std::string text;
  const std::size_t last = std::min(static_cast<std::size_t>(count), kHandlerFrames + depth);
  for (std::size_t i = kHandlerFrames; symbols && i < last; ++i) text += function_of(symbols.get()[i]) + "\n";
  return text;
}

bool has_debugger(pid_t process) {
  const std::string status = "/proc/" + std::to_string(process) + "/status";
  return leading_number(value_of_key(status, "TracerPid")).value_or(0) != 0;
}

}  // namespace mn

/// Runs numbered tasks on threads of this process.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mn::data {

/// Runs task(0) … task(n − 1) on `threads` threads, the calling thread among them. After the first failure no task
/// begins, and *failed becomes true. When all threads have ended, throws the first failure.
inline void run_tasks(std::size_t n, int threads, const std::function<void(std::size_t)>& task,
                      std::atomic<bool>* failed = nullptr) {
  std::atomic<bool> own_failed = false;
  std::atomic<bool>& stop = failed != nullptr ? *failed : own_failed;
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      // A common counter, not equal parts for all threads, because tasks take unequal times.
      for (std::size_t i = next++; i < n && !stop; i = next++) task(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      stop = true;
    }
  };
  {
    std::vector<std::jthread> workers;
    // The calling thread works, too.
    for (std::size_t t = 1; t < std::min(static_cast<std::size_t>(std::max(threads, 0)), n); ++t)
      workers.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace mn::data

/// Numbered tasks in the threads of this process.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace mn::data {

/// Runs task(0) … task(n − 1) on `threads` threads. The first failure sets `stop`, so that no further task begins, and
/// is thrown after all threads have ended.
void run_tasks(std::size_t n, int threads, std::atomic<bool>& stop, const std::function<void(std::size_t)>& task);
/// run_tasks() that only a failure stops.
inline void run_tasks(std::size_t n, int threads, const std::function<void(std::size_t)>& task) {
  std::atomic<bool> stop = false;
  run_tasks(n, threads, stop, task);
}

}  // namespace mn::data

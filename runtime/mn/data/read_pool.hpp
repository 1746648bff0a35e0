/// Threads that wait for storage.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace mn::data {

/// Threads that read many places at once: a distant file server answers late, but answers many requests at a time.
/// Thread-safe.
class ReadPool {
 public:
  /// Starts no thread; run() starts up to `threads`. No thread may be in run() when the pool is destroyed.
  explicit ReadPool(int threads) : most_threads_(threads) {}

  /// Calls task(0) … task(n − 1) on this thread and the pool's threads; returns when all calls have returned. `task`
  /// must not throw and must not call run().
  void run(std::size_t n, const std::function<void(std::size_t)>& task);

 private:
  struct Job {
    const std::function<void(std::size_t)>& task;
    std::size_t count;
    std::size_t next = 0;  // number of the next task to call
    std::size_t left = 0;  // number of tasks that have not returned
  };

  void start_thread();
  void work(const std::stop_token& stop);
  void call_next(Job& job, std::unique_lock<std::mutex>& lock);

  int most_threads_;
  std::mutex mutex_;  // guards all members below, and the jobs
  std::condition_variable_any wake_;
  std::condition_variable done_;
  std::deque<Job*> jobs_;  // jobs with tasks that have not begun
  std::size_t idle_ = 0;
  std::vector<std::jthread> threads_;  // last member: joined before the threads' data are destroyed
};

}  // namespace mn::data

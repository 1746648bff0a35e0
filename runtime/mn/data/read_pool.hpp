/// Threads that wait for storage.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mn::data {

/// Reads many places at once: a distant file server answers each call late, but many at a time. Thread-safe.
class ReadPool {
 public:
  /// Starts a thread when a call finds all threads busy, up to `threads`.
  explicit ReadPool(int threads) : most_threads_(threads) {}
  /// Nobody may be in run().
  ~ReadPool();
  ReadPool(const ReadPool&) = delete;
  ReadPool& operator=(const ReadPool&) = delete;

  /// Calls task(0) … task(n − 1), on this thread and the pool's, and returns when all are done. `task` must not throw,
  /// nor call run().
  void run(std::size_t n, const std::function<void(std::size_t)>& task);

 private:
  struct Job {
    const std::function<void(std::size_t)>& task;
    std::size_t count;
    std::size_t next = 0;  // to be called
    std::size_t left = 0;  // tasks that have not returned
  };

  void start_thread();
  void work();
  void call_next(Job& job, std::unique_lock<std::mutex>& lock);

  int most_threads_;
  std::mutex mutex_;  // guards all members below, and the jobs
  std::condition_variable wake_;
  std::condition_variable done_;
  std::deque<Job*> jobs_;  // jobs with tasks that have not begun
  std::size_t idle_ = 0;
  bool stop_ = false;
  std::vector<std::jthread> threads_;  // last: joined before the members that the threads use
};

}  // namespace mn::data

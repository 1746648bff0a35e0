#include <algorithm>
#include <system_error>

#include <mn/data/read_pool.hpp>

namespace mn::data {

void ReadPool::run(std::size_t n, const std::function<void(std::size_t)>& task) {
  if (n <= 1) {
    for (std::size_t i = 0; i < n; ++i) task(i);
    return;
  }
  Job job{.task = task, .count = n, .left = n};
  std::unique_lock lock(mutex_);
  jobs_.push_back(&job);
  start_threads(n - 1);
  while (job.next < n) call_next(job, lock);
  done_.wait(lock, [&] { return job.left == 0; });
}

void ReadPool::start_threads(std::size_t wanted) {
  try {
    while (idle_ < wanted && static_cast<int>(threads_.size()) < most_threads_) {
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
      ++idle_;
    }
  } catch (const std::system_error&) {
    // The system gives no more threads: those that are there do the work.
  }
}

void ReadPool::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (wake_.wait(lock, stop, [&] { return !jobs_.empty(); })) {
    --idle_;
    while (!jobs_.empty()) call_next(*jobs_.front(), lock);
    ++idle_;
  }
}

/// Whoever starts a call wakes two threads more: many wake soon, but few where calls end at once.
void ReadPool::call_next(Job& job, std::unique_lock<std::mutex>& lock) {
  const std::size_t i = job.next++;
  if (job.next == job.count) std::erase(jobs_, &job);
  for (std::size_t woken = 0; woken < 2 && woken < idle_ && !jobs_.empty(); ++woken) wake_.notify_one();
  lock.unlock();
  job.task(i);
  lock.lock();
  if (--job.left == 0) done_.notify_all();
}

}  // namespace mn::data

#include <mn/data/read_pool.hpp>

#include <cassert>
#include <system_error>

namespace mn::data {

void ReadPool::run(std::size_t n, const std::function<void(std::size_t)>& task) {
  if (n <= 1) {
    for (std::size_t i = 0; i < n; ++i) task(i);
    return;
  }
  Job job{.task = task, .count = n, .left = n};
  std::unique_lock lock(mutex_);
  jobs_.push_back(&job);
  while (job.next < n) call_next(job, lock);
  done_.wait(lock, [&] { return job.left == 0; });
}

void ReadPool::start_thread() {
  if (static_cast<int>(threads_.size()) >= most_threads_) return;
  try {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    ++idle_;
  } catch (const std::system_error&) {
    // If the system permits no more threads, the caller of run() and the existing threads do the work.
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

/// Wakes or starts one more thread, so that long tasks soon run on many threads, then calls the job's next task.
void ReadPool::call_next(Job& job, std::unique_lock<std::mutex>& lock) {
  assert(job.next < job.count && job.left > 0);
  const std::size_t i = job.next++;
  if (job.next == job.count) std::erase(jobs_, &job);
  if (!jobs_.empty() && idle_ == 0) start_thread();
  const bool wake = !jobs_.empty();
  lock.unlock();
  if (wake) wake_.notify_one();
  job.task(i);
  lock.lock();
  if (--job.left == 0) done_.notify_all();
}

}  // namespace mn::data

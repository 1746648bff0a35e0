#include <mn/loader/transform_team.hpp>

#include <cassert>
#include <system_error>

namespace mn {

void TransformTeam::run(std::int64_t order, const std::function<void(const ForEach&)>& transform) {
  {
    std::unique_lock lock(mutex_);
    waiting_.insert(order);
    changed_.wait(lock, [&] { return may_begin(order); });
    waiting_.erase(order);
    ++active_;
    assert(active_ <= threads_);  // at most `threads` threads transform
  }
  changed_.notify_all();  // another waiting thread may now have the lowest order
  const auto leave = [&] {
    {
      const std::lock_guard lock(mutex_);
      --active_;
    }
    changed_.notify_all();
  };
  try {
    transform([&](std::int64_t n, const std::function<void(std::int64_t)>& task) { for_each(order, n, task); });
  } catch (...) {
    leave();
    throw;
  }
  leave();
}

bool TransformTeam::may_begin(std::int64_t order) const {
  return active_ < threads_ && *waiting_.begin() == order && (jobs_.empty() || order < jobs_.begin()->first);
}

bool TransformTeam::may_help() const {
  return active_ < threads_ && !jobs_.empty() && (waiting_.empty() || jobs_.begin()->first < *waiting_.begin());
}

void TransformTeam::for_each(std::int64_t order, std::int64_t n, const std::function<void(std::int64_t)>& task) {
  if (n < 2 || threads_ == 1) return in_turn(n, task);
  Job job{.task = task, .count = n, .left = n};
  std::unique_lock lock(mutex_);
  jobs_[order] = &job;
  start_helpers();
  changed_.notify_all();
  while (job.next < job.count) do_next(lock);
  changed_.wait(lock, [&] { return job.left == 0; });
  if (job.error) std::rethrow_exception(job.error);
}

void TransformTeam::start_helpers() {
  try {
    while (static_cast<int>(helpers_.size()) < threads_ - 1)
      helpers_.emplace_back([this](const std::stop_token& stop) { help(stop); });
  } catch (const std::system_error&) {  // helpers are not needed: the caller of run() can finish the batch
  }
}

void TransformTeam::help(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return may_help(); })) {
    ++active_;
    assert(active_ <= threads_);  // at most `threads` threads transform
    do do_next(lock);
    while (!jobs_.empty() && (waiting_.empty() || jobs_.begin()->first < *waiting_.begin()));
    --active_;
    changed_.notify_all();
  }
}

void TransformTeam::do_next(std::unique_lock<std::mutex>& lock) {
  Job& job = *jobs_.begin()->second;
  const std::int64_t i = job.next++;
  if (job.next == job.count) jobs_.erase(jobs_.begin());
  lock.unlock();
  std::exception_ptr error;
  try {
    job.task(i);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error && !job.error) job.error = error;
  if (--job.left == 0) changed_.notify_all();
}

}  // namespace mn

/// Threads that transform minibatches.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>
#include <vector>

#include <mn/loader/loader_options.hpp>

namespace mn {

/// Shares a fixed number of threads among the batches that are to be transformed. One thread transforms a whole batch,
/// or several threads share its samples.
///
/// (1) At most `threads` threads transform at a time, counting callers of run() and the team's helper threads.
/// (2) A free thread begins the batch of the lowest order, or helps with it, because the loader's caller needs this
///     batch first.
/// (3) The thread that began a batch works on it until it is finished, so batches are finished even without helpers.
class TransformTeam {
 public:
  /// When the team is destroyed, no thread may be in run().
  explicit TransformTeam(int threads) : threads_(threads) {}

  /// Calls transform(for_each) on this thread, once fewer than `threads` threads transform and no batch of a lower
  /// order waits. Concurrent calls must have different orders. Throws the errors of `transform`.
  void run(std::int64_t order, const std::function<void(const ForEach& for_each)>& transform);

 private:
  /// A batch whose samples several threads share. task(i) transforms sample i.
  struct Job {
    const std::function<void(std::int64_t)>& task;
    std::int64_t count;
    std::int64_t next = 0;  // number of the next sample to begin
    std::int64_t left = 0;  // number of samples that are not finished
    std::exception_ptr error = {};
  };

  void for_each(std::int64_t order, std::int64_t n, const std::function<void(std::int64_t)>& task);
  void start_helpers();
  void help(const std::stop_token& stop);
  /// Transforms the next sample of the job of the lowest order, without holding the mutex.
  void do_next(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool may_begin(std::int64_t order) const;
  [[nodiscard]] bool may_help() const;

  int threads_;
  std::mutex mutex_;  // guards all members below, and the jobs
  std::condition_variable_any changed_;
  int active_ = 0;                     // number of threads that transform now
  std::set<std::int64_t> waiting_;     // orders of the callers of run() that wait to begin
  std::map<std::int64_t, Job*> jobs_;  // jobs with samples that no thread has begun; the key is the batch's order
  std::vector<std::jthread> helpers_;  // last: joined before the members that the threads use
};

}  // namespace mn

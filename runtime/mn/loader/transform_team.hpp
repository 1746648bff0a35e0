/// Threads that transform minibatches: one thread for each, or several threads share the samples of a minibatch.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <mn/loader/loader_options.hpp>

namespace mn {

/// (1) At most `threads` threads transform at a time: callers of run(), and the team's own helpers.
/// (2) The batch of the lowest order, which is asked for first, goes first: a free thread begins it or helps with it.
/// (3) The thread that began a batch ends it, so a team makes progress even without helpers.
///
/// Cost: one lock a sample, if a transform divides its batch.
class TransformTeam {
 public:
  explicit TransformTeam(int threads) : threads_(threads) {}
  /// Nobody may be in run().
  ~TransformTeam();
  TransformTeam(const TransformTeam&) = delete;
  TransformTeam& operator=(const TransformTeam&) = delete;

  /// Calls transform(for_each) on this thread, as soon as a thread of the team is free. Concurrent calls must have
  /// different orders. Throws the errors of `transform`.
  void run(std::int64_t order, const std::function<void(const ForEach& for_each)>& transform);

 private:
  /// Samples of a batch that several threads share.
  struct Job {
    const std::function<void(std::int64_t)>& task;
    std::int64_t count;
    std::int64_t next = 0;  // to be begun
    std::int64_t left = 0;  // samples that are not finished
    std::exception_ptr error = {};
  };

  void for_each(std::int64_t order, std::int64_t n, const std::function<void(std::int64_t)>& task);
  void start_helpers();
  void help();
  /// The next sample of the first job, without the lock.
  void do_next(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool may_begin(std::int64_t order) const;
  [[nodiscard]] bool may_help() const;

  int threads_;
  std::mutex mutex_;  // guards all members below, and the jobs
  std::condition_variable changed_;
  int active_ = 0;                     // threads that transform
  std::set<std::int64_t> waiting_;     // orders of callers that wait to begin
  std::map<std::int64_t, Job*> jobs_;  // by order: jobs with samples that are not begun
  bool stop_ = false;
  std::vector<std::jthread> helpers_;  // last: joined before the members that the threads use
};

}  // namespace mn

/// The threads that transform minibatches: each has one of its own, or several share the samples of one.
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

/// (1) At most so many threads transform at a time: callers of run(), and helpers of the team's own.
/// (2) The batch that is asked for first goes first: a thread that is free begins or helps the one of lowest order.
/// (3) The thread that began a batch ends it, so a team makes progress also where the system gives no helpers.
///
/// Cost: one lock a sample, where a transform divides its batch.
class TransformTeam {
 public:
  explicit TransformTeam(int threads) : threads_(threads) {}
  /// Nobody may be in run().
  ~TransformTeam();
  TransformTeam(const TransformTeam&) = delete;
  TransformTeam& operator=(const TransformTeam&) = delete;

  /// Calls transform(for_each) on this thread, once a thread of the team is free. Orders of calls at the same time
  /// differ. Throws what `transform` throws.
  void run(std::int64_t order, const std::function<void(const ForEach& for_each)>& transform);

 private:
  /// Samples of a batch that several threads transform.
  struct Job {
    const std::function<void(std::int64_t)>& task;
    std::int64_t count;
    std::int64_t next = 0;  // to be begun
    std::int64_t left = 0;  // that have not ended
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
  std::mutex mutex_;  // guards all that follows, and the jobs
  std::condition_variable changed_;
  int active_ = 0;                     // threads that transform
  std::set<std::int64_t> waiting_;     // orders of those that want to begin
  std::map<std::int64_t, Job*> jobs_;  // by order: those with samples that nobody has begun
  bool stop_ = false;
  std::vector<std::jthread> helpers_;  // last: joined before what they use is destroyed
};

}  // namespace mn

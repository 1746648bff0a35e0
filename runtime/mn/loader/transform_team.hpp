/// Threads that transform minibatches. A thread transforms a minibatch alone, or several threads share the samples.
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

/// (1) At most `threads` threads transform at a time, callers of run() and the team's own helpers together.
/// (2) The batch of the lowest order goes first, because the caller of the loader needs it first. A free thread begins
///     this batch or helps with it.
/// (3) The thread that began a batch works on it until it is finished, so batches get finished even without helpers.
///
/// Cost: if a transform shares its batch with other threads, the mutex is taken once for each sample.
class TransformTeam {
 public:
  explicit TransformTeam(int threads) : threads_(threads) {}
  /// No thread may be in run().
  ~TransformTeam();
  TransformTeam(const TransformTeam&) = delete;
  TransformTeam& operator=(const TransformTeam&) = delete;

  /// Calls transform(for_each) on this thread. Blocks first until fewer than `threads` threads transform and no batch
  /// of a lower order waits. Concurrent calls must have different orders. Throws the errors of `transform`.
  void run(std::int64_t order, const std::function<void(const ForEach& for_each)>& transform);

 private:
  /// The samples of a batch that several threads share; task(i) transforms sample i.
  struct Job {
    const std::function<void(std::int64_t)>& task;
    std::int64_t count;
    std::int64_t next = 0;  // number of the next sample to begin
    std::int64_t left = 0;  // number of samples that are not finished
    std::exception_ptr error = {};
  };

  void for_each(std::int64_t order, std::int64_t n, const std::function<void(std::int64_t)>& task);
  void start_helpers();
  void help();
  /// Transforms the next sample of the first job; unlocks the mutex meanwhile.
  void do_next(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool may_begin(std::int64_t order) const;
  [[nodiscard]] bool may_help() const;

  int threads_;
  std::mutex mutex_;  // guards all members below, and the jobs
  std::condition_variable changed_;
  int active_ = 0;                     // number of threads that transform now
  std::set<std::int64_t> waiting_;     // orders of the callers of run() that wait to begin
  std::map<std::int64_t, Job*> jobs_;  // by order: the jobs with samples that are not begun
  bool stop_ = false;
  std::vector<std::jthread> helpers_;  // last: joined before the members that the threads use
};

}  // namespace mn

/// Finds out whether a loss function, which runs on each minibatch, makes collective calls.
///
/// On a rank whose minibatch has no samples, the function is not called. If the function makes collective calls, the
/// ranks with samples would wait in these calls forever for that rank.
/// (1) Before the first minibatch, no rank knows whether the function makes collective calls. The ranks therefore tell
///     each other whether any rank has no samples. If a rank has no samples, the function's first collective call
///     throws before anything is sent.
/// (2) After the first minibatch, every rank knows whether the function makes collective calls. If it does, a rank
///     without samples throws an error, which ends the job.
///
/// Cost: a small allreduce before the first minibatch, and a second small allreduce after that minibatch if a rank has
/// no samples.
#pragma once

#include <cstdint>
#include <optional>

#include <mn/comm/calls/forbidden_calls.hpp>
#include <mn/comm/communicator.hpp>

namespace mn {

/// Runs a function on minibatches, and finds out whether the function makes collective calls.
class CollectiveUse {
 public:
  /// Returns function(). On a rank without samples, the function is not called, and the result has no value. If `comm`
  /// is not null, the first run() is collective over `comm`, because the ranks find out whether any rank has no samples
  /// (invariant 1). Throws ArgumentError if the function makes collective calls and a rank has no samples. The error's
  /// text contains `where`, for example "training", and the epoch, counted from 1.
  template <class Function>
  auto run(std::int64_t samples, Communicator* comm, const char* where, std::int64_t epoch, const Function& function) {
    std::optional<decltype(function())> result;
    const std::optional<int> empty = rank_without_samples(samples, comm);
    bool forbidden = false;
    if (!empty) {
      if (samples == 0) check_absence(where, epoch);
      const std::uint64_t calls_before = collective_calls();
      if (samples > 0) result.emplace(function());
      any_ = any_ || collective_calls() != calls_before;
    } else if (samples > 0) {
      const ForbiddenCalls none;
      try {
        result.emplace(function());
      } catch (const ForbiddenCall&) {
        forbidden = true;
      }
    }
    if (empty) agree_on_none(forbidden, *comm, *empty, where, epoch);
    return result;
  }
  /// True if the function has made a collective call on this rank in any run().
  [[nodiscard]] bool any() const noexcept { return any_; }

 private:
  void check_absence(const char* where, std::int64_t epoch) const;
  [[nodiscard]] std::optional<int> rank_without_samples(std::int64_t samples, Communicator* comm);
  static void agree_on_none(bool forbidden, Communicator& comm, int empty, const char* where, std::int64_t epoch);

  bool any_ = false;
  bool is_known_ = false;  // invariant 2: every rank has had a minibatch
};

}  // namespace mn

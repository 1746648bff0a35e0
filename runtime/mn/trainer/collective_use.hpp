/// Finds out whether what runs on each minibatch makes collective calls, as every rank must then.
///
/// A function such as a loss is not called for a minibatch without samples. If it makes collective calls, the other
/// ranks would wait in them forever.
/// (1) Until each rank has had a minibatch, none knows what the function does: before it the ranks agree on who has no
///     samples, and where one has none, the function's first call of a communicator throws before anything is sent.
/// (2) From then on all know, and a rank without samples ends the job where the others would wait.
/// Cost: one small allreduce before the first minibatch, and another after it where a rank has no samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <mn/comm/calls/forbidden_calls.hpp>
#include <mn/comm/communicator.hpp>

namespace mn {

/// Notices the collective calls of a function that runs on minibatches, such as a loss.
class CollectiveUse {
 public:
  /// What `call` returns; no value on a rank without samples, where it is not called. Collective over `comm` as (1)
  /// says, if that is not null. Throws ArgumentError if it makes collective calls and this rank, or before (2) another,
  /// has no samples; `where` is "training", `epoch` counts from 1.
  template <class Call>
  auto run(std::int64_t samples, Communicator* comm, const char* where, std::int64_t epoch, const Call& call) {
    std::optional<decltype(call())> result;
    const std::optional<int> empty = rank_without_samples(samples, comm);
    bool forbidden = false;
    if (!empty) {
      samples > 0 ? void(result.emplace(watch(call))) : check_absence(where, epoch);
    } else if (samples > 0) {
      const ForbiddenCalls none;
      try {
        result.emplace(call());
      } catch (const ForbiddenCall&) {
        forbidden = true;
      }
    }
    if (empty) agree_on_none(forbidden, *comm, *empty, where, epoch);
    return result;
  }
  /// The result of `call`, whose collective calls are noticed.
  template <class Call>
  auto watch(const Call& call) {
    const std::uint64_t before = collective_calls();
    auto result = call();
    any_ = any_ || collective_calls() != before;
    return result;
  }
  /// Whether there was one.
  [[nodiscard]] bool any() const noexcept { return any_; }
  /// For a rank that leaves the call out. Throws ArgumentError if the others make collective calls in it.
  void check_absence(const char* where, std::int64_t epoch) const;

 private:
  [[nodiscard]] std::optional<int> rank_without_samples(std::int64_t samples, Communicator* comm);
  static void agree_on_none(bool forbidden, Communicator& comm, int empty, const char* where, std::int64_t epoch);

  bool any_ = false;
  bool is_known_ = false;  // (2): each rank has had a minibatch
};

}  // namespace mn

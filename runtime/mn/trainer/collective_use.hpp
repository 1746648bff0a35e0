/// Detects collective calls of a function that runs on each minibatch (a loss).
///
/// The function is not called for a minibatch without samples. If it makes collective calls, ranks with samples would
/// wait in the calls forever for a rank without.
/// (1) At the first minibatch, nobody knows yet what the function does. Before it, the ranks agree on a rank without
///     samples. If there is one, the function's first collective call throws before anything is sent.
/// (2) After the first minibatch, every rank knows, and a rank without samples ends the job if the function makes
///     collective calls.
/// Cost: a small allreduce before the first minibatch, and a second after it if a rank has no samples.
#pragma once

#include <cstdint>
#include <optional>

#include <mn/comm/calls/forbidden_calls.hpp>
#include <mn/comm/communicator.hpp>

namespace mn {

/// Watches a function that runs on minibatches.
class CollectiveUse {
 public:
  /// Returns function(); no value, without a call, on a rank without samples. The first call is collective over `comm`
  /// unless that is null (1). Throws ArgumentError if the function makes collective calls and a rank has no samples.
  /// For messages: `where` is "training", for example, and `epoch` counts from 1.
  template <class Function>
  auto run(std::int64_t samples, Communicator* comm, const char* where, std::int64_t epoch, const Function& function) {
    std::optional<decltype(function())> result;
    const std::optional<int> empty = rank_without_samples(samples, comm);
    bool forbidden = false;
    if (!empty) {
      samples > 0 ? void(result.emplace(watch(function))) : check_absence(where, epoch);
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
  /// Returns function(), and notices whether it makes collective calls.
  template <class Function>
  auto watch(const Function& function) {
    const std::uint64_t before = collective_calls();
    auto result = function();
    any_ = any_ || collective_calls() != before;
    return result;
  }
  /// True if watch() has noticed a collective call.
  [[nodiscard]] bool any() const noexcept { return any_; }
  /// For a rank that does not call the function: throws ArgumentError if the function makes collective calls.
  void check_absence(const char* where, std::int64_t epoch) const;

 private:
  [[nodiscard]] std::optional<int> rank_without_samples(std::int64_t samples, Communicator* comm);
  static void agree_on_none(bool forbidden, Communicator& comm, int empty, const char* where, std::int64_t epoch);

  bool any_ = false;
  bool is_known_ = false;  // (2): each rank has had a minibatch
};

}  // namespace mn

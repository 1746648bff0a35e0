/// Reduces gradients within a node while the slower ranks are still in backward.
///
/// Works in place, where the gradients of all ranks lie in shared memory (comm/shared_reducer.hpp). If the step was
/// announced, backward publishes gradients as they become final; ranks that have finished their own backward reduce
/// what all have published. So the time that a rank would wait for slower ones is used, without a thread.
/// (1) Messages are published in memory order, the order of backward: a prefix, which never shrinks before the step.
/// (2) A published gradient is final: other ranks may already have overwritten it with the mean (StepPromise).
/// (3) The tail is published by reduce() alone.
/// The result has the same bits as the direct reduction's.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include <mn/comm/node/shared_reducer.hpp>
#include <mn/gradients/gradient_reduction.hpp>
#include <mn/gradients/ready_hooks.hpp>
#include <mn/gradients/step_promise.hpp>

namespace mn {

class OneNodeReduction : public GradientReduction {
 public:
  OneNodeReduction(GradientBuffer gradients, std::unique_ptr<SharedReducer> reducer, std::shared_ptr<Communicator> comm,
                   std::shared_ptr<GradientAverager> averager, std::shared_ptr<Trace> trace);

  void train_only(const std::vector<bool>& parameters) override;
  void clear() override;
  void announce(StepPromise::Weight weight) override;
  bool has_given_away() const override { return published_ > 0; }
  void check_promise(const StepWeight& weight) const override { promise_.check(weight, *gradients_, published_); }
  ReductionResult reduce(const StepWeight& weight, bool has_fault) override;

 private:
  void ready(std::size_t i);
  [[nodiscard]] bool is_final(std::size_t message) const;
  void forget_published();

  std::unique_ptr<SharedReducer> reducer_;
  std::shared_ptr<Trace> trace_;
  StepPromise promise_;
  std::size_t published_ = 0;        // messages
  std::optional<ReadyHooks> hooks_;  // from the first announcement on
};

}  // namespace mn

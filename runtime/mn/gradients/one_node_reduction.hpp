/// Reduces the gradients of the ranks of one node while slower ranks are still in backward.
///
/// The gradients of all ranks lie in shared memory and are reduced there (comm/node/shared_reducer.hpp). In a step that
/// the program has announced, backward publishes each gradient as soon as it is final. A rank whose backward has ended
/// reduces the gradients that all ranks have published. Therefore a fast rank works instead of waiting, and no thread
/// is needed.
/// (1) Messages are published in memory order, which is the order of backward. The published messages are therefore
///     always the first ones in memory, and one number, which grows until the step, tells how many there are.
/// (2) A published gradient is final: any rank may already have overwritten it with the mean (StepPromise).
/// (3) Only reduce() publishes the last message of the buffer, which holds the step's weights and flags.
/// The result equals the result of a reduction at the step, bit for bit.
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
  std::size_t published_ = 0;        // messages published in this step
  std::optional<ReadyHooks> hooks_;  // set by the first announcement
};

}  // namespace mn

/// The promise that a rank makes when it calls MultiNodeOptimizer::announce_step(): exactly one backward follows, then
/// the step. After this promise the ranks may reduce a finished gradient in place before the step. The rank has then
/// given the gradient away.
///
/// (1) A backward may run inner backwards (recompute_activations() does), and each of them may add to a parameter's
///     gradient again. The first announced step therefore changes no gradient in place, and looks for inner backwards.
///     If it sees one, promises never bind: no gradient is ever changed in place.
/// (2) A gradient given away cannot be recovered. Therefore a second backward, a changed weight, or a write to a
///     gradient given away throws UsageError.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <mn/gradients/gradient_buffer.hpp>

namespace mn {

class StepPromise {
 public:
  /// A function that returns the step's weight, or no value if the weight is not known yet. The first hook of backward
  /// calls the function, because the weights of the losses are known by then.
  using Weight = std::function<std::optional<StepWeight>()>;
  void announce(Weight weight);
  /// Looks for inner and second backwards in an announced step. Call it in the hook of gradient i, after the buffer's
  /// hook.
  void watch_backward(std::size_t i, const GradientBuffer& gradients);
  /// Returns the factor of the announced weight. Returns no value if gradients must not be changed in place (1).
  [[nodiscard]] std::optional<double> binding() const;
  /// True if this step was announced, and either its promise binds already or promises can bind from the next step on.
  [[nodiscard]] bool may_bind() const noexcept {
    return is_announced_ && !runs_inner_backwards_ && (weight_ || !has_looked_);
  }
  /// Returns the announced weight, whether or not the promise binds.
  [[nodiscard]] const std::optional<StepWeight>& weight() const noexcept { return weight_; }

  /// Call it at the beginning of the step. Throws UsageError if the promise was broken (2). The gradients in the
  /// messages [0, given_away) were given away.
  void check(const StepWeight& weight, const GradientBuffer& gradients, std::size_t given_away) const;
  /// Call it at the end of a step that was made as promised.
  void keep();
  /// Forgets the promise: no step is announced any more.
  void forget();
  [[noreturn]] static void fail(const std::string& what);

 private:
  bool is_announced_ = false;
  Weight find_weight_;  // null once it was called
  std::optional<StepWeight> weight_;
  std::optional<int> task_;  // autograd's task of this step's backward
  bool has_looked_ = false;  // an announced step has looked for inner backwards
  bool runs_inner_backwards_ = false;
  bool twice_ = false;  // a second backward added to a multiplied gradient
};

}  // namespace mn

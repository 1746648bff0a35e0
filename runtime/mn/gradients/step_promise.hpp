/// What MultiNodeOptimizer::announce_step() promises, and what it allows: gradients that one backward has finished may
/// be reduced in place before the step.
///
/// (1) A backward that runs others inside (recompute_activations() does) may come to a parameter once more in each. The
///     first announced step changes nothing in place and looks for them; once seen, the promise binds no rank any more.
/// (2) Nothing can be taken back. A second backward, another factor or a write by hand after a gradient was given away
///     throws UsageError.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <mn/gradients/gradient_buffer.hpp>

namespace mn {

class StepPromise {
 public:
  /// The weight that the step will have, which the first hook of the backward asks for: by then it is known which
  /// losses carry one. No value: it is not known yet.
  using Weight = std::function<std::optional<StepWeight>()>;
  void announce(Weight weight);
  /// From the hook of gradient i, after the buffer's own.
  void watch_backward(std::size_t i, const GradientBuffer& gradients);
  /// The weight's factor, if gradients may be changed in place (1).
  [[nodiscard]] std::optional<double> binding() const;
  /// Whether no rank is bound in this step, but will be in later ones that are announced.
  [[nodiscard]] bool will_bind() const noexcept { return is_announced_ && !runs_inner_backwards_ && !has_looked_; }
  /// As announced, whether it binds or not.
  [[nodiscard]] const std::optional<StepWeight>& weight() const noexcept { return weight_; }

  /// At the step, before anything else: throws UsageError if the promise was broken (2). Messages [0, given_away) of
  /// the gradients were given away.
  void check(const StepWeight& weight, const GradientBuffer& gradients, std::size_t given_away) const;
  /// The step was made.
  void keep();
  /// Nothing is announced.
  void forget();
  [[noreturn]] static void fail(const std::string& what);

 private:
  bool is_announced_ = false;
  Weight find_weight_;  // until it has been asked
  std::optional<StepWeight> weight_;
  std::optional<int> task_;  // autograd's, of this step's backward
  bool has_looked_ = false;  // in an announced step
  bool runs_inner_backwards_ = false;
  bool twice_ = false;  // a second backward added to a gradient that was multiplied
};

}  // namespace mn

/// How and when gradients become their mean over ranks: at the step, during backward, or one step late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/train/gradient_buffer.hpp>

namespace mn {

/// Owns the gradients of a parameter list between zero() and reduce(). All calls are collective, in the same order.
class GradientReduction {
 public:
  virtual ~GradientReduction() = default;
  GradientReduction(const GradientReduction&) = delete;
  GradientReduction& operator=(const GradientReduction&) = delete;

  [[nodiscard]] virtual const std::vector<at::Tensor>& parameters() const noexcept = 0;
  [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
  /// Gradients are zero and attached afterwards.
  virtual void zero() = 0;
  /// Makes the gradients the mean, this rank's weighed by `weight`. False if there is nothing to update with.
  [[nodiscard]] virtual bool reduce(double weight) = 0;
  /// While off, a backward only accumulates: nothing is sent before reduce().
  virtual void set_sync(bool /*on*/) {}

 protected:
  GradientReduction() = default;
};

struct ReductionOptions {
  bool overlap = false;                             ///< reduce buckets while backward goes on
  bool double_buffering = false;                    ///< apply the previous step's mean while this one is reduced
  bool deterministic = false;                       ///< freezes the bucket plan instead of tuning it in the first steps
  std::size_t bucket_bytes = std::size_t{4} << 20;  ///< the plan before tuning
};

/// Collective. Throws UsageError if the options contradict each other.
[[nodiscard]] std::unique_ptr<GradientReduction> create_gradient_reduction(std::vector<at::Tensor> parameters,
                                                                           const std::shared_ptr<Communicator>& comm,
                                                                           const ReductionOptions& options);

}  // namespace mn

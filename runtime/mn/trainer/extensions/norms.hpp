/// Adds the norms of gradients, weights and updates to the log.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/optimizer.hpp>

namespace mn::extensions {

/// In every `every`-th iteration, measures three values of the trained parameters: "gradient_norm", the L2 norm of the
/// mean gradient over all ranks before hooks (weight decay, clipping) change it; "weight_norm", the norm of the weights
/// before the update; "update_ratio", the norm of the update divided by weight_norm, where about 1e-3 is healthy. The
/// values of a further optimizer NAME end with "/NAME". An iteration with an overflow has no values.
///
/// All ranks compute the same values without a message. Cost of an iteration that is measured: three passes over the
/// parameters, a copy of the parameters until the end of the update, and a wait for the device.
class Norms final : public Extension {
 public:
  /// Throws UsageError if `every` is less than 1.
  explicit Norms(std::int64_t every = 10);
  /// Removes this extension's hooks from the optimizers.
  ~Norms() override;
  Norms(const Norms&) = delete;             ///< not copyable
  Norms& operator=(const Norms&) = delete;  ///< not copyable

  [[nodiscard]] std::string name() const override { return "Norms"; }
  [[nodiscard]] int priority() const override { return kPriorityWriter; }
  /// Adds a hook to each optimizer. Throws UsageError if an optimizer makes local steps, or if the trainer uses a CUDA
  /// graph.
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;

 private:
  /// An optimizer, and what the hook of this extension has seen in the current iteration.
  struct Watched {
    std::shared_ptr<MultiNodeOptimizer> optimizer;
    at::Tensor gradient_norm;                    // undefined: the hook did not run
    std::vector<at::Tensor> parameters, before;  // the trained parameters; copies from before the update
  };
  [[nodiscard]] static std::vector<at::Tensor> weights_of(const Watched& watched);
  void watch(const Trainer& trainer, Watched& watched) const;
  static void report(Trainer& trainer, const std::string& end, Watched& watched);

  std::int64_t every_;
  std::map<std::string, Watched> optimizers_;  // by name
};

}  // namespace mn::extensions

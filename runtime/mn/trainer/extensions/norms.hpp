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

/// Every `every` iterations measures three values of the trained parameters: "gradient_norm", the L2 norm of the mean
/// gradient over all ranks, before hooks (weight decay, clipping) change it; "weight_norm", the norm of the weights
/// before the update; and "update_ratio", the norm of the update over the norm of the weights, about 1e-3 in a healthy
/// training. Values of an optimizer NAME other than the first end with "/NAME". An iteration whose gradients overflow
/// has no values. The log has the means over the iterations that were measured since its last entry.
///
/// All ranks compute the same values without a message. Cost in these iterations: three passes over the parameters, a
/// copy of the parameters until the end of the update, and a wait for the device.
class Norms final : public Extension {
 public:
  /// Throws UsageError if `every` is less than 1.
  explicit Norms(std::int64_t every = 10);
  /// Removes its hooks from the optimizers.
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
  /// An optimizer, and what this extension's hook has seen in the iteration.
  struct Watched {
    std::shared_ptr<MultiNodeOptimizer> optimizer;
    at::Tensor gradient_norm;                    // undefined: the hook did not run
    std::vector<at::Tensor> parameters, before;  // the trained parameters, and copies from before the update
  };
  [[nodiscard]] static std::vector<at::Tensor> weights_of(const Watched& watched);
  void watch(const Trainer& trainer, Watched& watched) const;
  static void report(Trainer& trainer, const std::string& end, Watched& watched);

  std::int64_t every_;
  std::map<std::string, Watched> optimizers_;  // by name
};

}  // namespace mn::extensions

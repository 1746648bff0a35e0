/// Batch normalization's statistics averaged over ranks.
#pragma once

#include <string>

#include <mn/trainer/extension.hpp>

namespace torch::nn {
class Module;
}

namespace mn {

class Communicator;

/// Collective: every floating-point buffer of the model becomes its mean over ranks, in one reduction.
void average_buffers(torch::nn::Module& model, Communicator& comm);

namespace extensions {

/// Calls average_buffers() before evaluators and snapshots run (ChainerMN's AllreducePersistent), because each rank's
/// running means and variances are of its own samples alone. Runs once an epoch, unless another trigger is given: give
/// it that of the most frequent evaluator or snapshot.
class AllreducePersistent final : public Extension {
 public:
  [[nodiscard]] std::string name() const override { return "AllreducePersistent"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] int priority() const override { return kPriorityWriter + 1; }
  void run(Trainer& trainer) override;
};

}  // namespace extensions
}  // namespace mn

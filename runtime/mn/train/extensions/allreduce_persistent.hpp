/// Batch normalisation's statistics averaged over ranks.
#pragma once

#include <mn/comm/communicator.hpp>
#include <mn/train/extension.hpp>

namespace torch::nn {
class Module;
}

namespace mn {

/// Collective: every floating-point buffer of the model becomes its mean over ranks, in one reduction.
void average_buffers(torch::nn::Module& model, Communicator& comm);

namespace extensions {

/// average_buffers() before evaluators and snapshots run (ChainerMN's AllreducePersistent): each rank's running means
/// and variances are of its own samples alone. Once an epoch; give it the trigger of whatever comes soonest after it.
class AllreducePersistent final : public Extension {
 public:
  [[nodiscard]] std::string name() const override { return "AllreducePersistent"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] int priority() const override { return kPriorityWriter + 1; }
  void run(Trainer& trainer) override;
};

}  // namespace extensions
}  // namespace mn

/// Batch normalization's statistics averaged over ranks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <mn/trainer/extension.hpp>

namespace torch::nn {
class Module;
}

namespace mn {

class Communicator;

/// Collective: the model's running statistics (buffers named running_mean and running_var) become those of all ranks
/// together: a variance is the mean of the ranks' variances plus what their means differ by. Buffers named in `also`,
/// as model.named_buffers() names them, become their mean over ranks; all others (codebooks, queues, the vectors of a
/// spectral norm) stay each rank's own. One reduction. Throws ArgumentError for a name that is not a floating-point
/// buffer's.
void average_buffers(torch::nn::Module& model, Communicator& comm, const std::vector<std::string>& also = {});

namespace extensions {

/// Calls average_buffers() before evaluators and snapshots run (ChainerMN's AllreducePersistent), because each rank's
/// running means and variances are of its own samples alone. Runs once an epoch, unless another trigger is given: give
/// it that of the most frequent evaluator or snapshot.
class AllreducePersistent final : public Extension {
 public:
  /// `also` as average_buffers() takes it.
  explicit AllreducePersistent(std::vector<std::string> also = {}) : also_(std::move(also)) {}

  [[nodiscard]] std::string name() const override { return "AllreducePersistent"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] int priority() const override { return kPriorityWriter + 1; }
  void run(Trainer& trainer) override;
  void at_end(Trainer& trainer) override { run(trainer); }

 private:
  std::vector<std::string> also_;
};

}  // namespace extensions
}  // namespace mn

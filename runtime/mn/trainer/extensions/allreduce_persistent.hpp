/// Averages the running statistics of batch normalization over ranks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <mn/trainer/extension.hpp>

namespace mn {

/// Collective, with one reduction. Sets the model's running statistics (buffers named running_mean and running_var) to
/// the statistics of all ranks' samples together; the variance includes the differences between the ranks' means.
/// Buffers named in `also`, as in model.named_buffers(), become their means over ranks. All other buffers stay as they
/// are. Throws ArgumentError if a name in `also` is not the name of a floating-point buffer.
void average_buffers(torch::nn::Module& model, Communicator& comm, const std::vector<std::string>& also = {});

namespace extensions {

/// Calls average_buffers() before evaluators and snapshots run (ChainerMN's AllreducePersistent); give this extension
/// the most frequent trigger among them. Without AllreducePersistent, a rank's statistics come only from its own
/// samples.
class AllreducePersistent final : public Extension {
 public:
  /// `also` has further names of buffers for average_buffers().
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

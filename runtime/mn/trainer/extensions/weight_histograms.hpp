/// Writes histograms of the parameters for TensorBoard.
#pragma once

#include <string>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/tensorboard.hpp>

namespace mn::extensions {

/// Rank 0 writes a histogram of each parameter, under the name "weights/NAME", once an epoch by default. The cost is
/// one pass over the parameters. Values that are not finite do not count.
class WeightHistograms final : public Extension {
 public:
  /// `board` belongs to the same trainer, and must outlive this extension.
  explicit WeightHistograms(TensorBoard& board) : board_(board) {}

  [[nodiscard]] std::string name() const override { return "WeightHistograms"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] int priority() const override { return kPriorityReport; }
  void run(Trainer& trainer) override;

 private:
  TensorBoard& board_;
};

}  // namespace mn::extensions

/// Checkpoints during training.
#pragma once

#include <cstddef>
#include <string>

#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// Writes OUT/snapshot_iter_N once an epoch, unless another trigger is given, and at the end of training, and removes
/// all but the `keep` of the most iterations; later ones, of a run that this one does not continue, are renamed to
/// old_snapshot_iter_N. Runs after all other extensions, because it holds their states. Trainer::resume() reads it.
class Snapshot final : public Extension {
 public:
  /// Throws UsageError unless keep ≥ 1.
  explicit Snapshot(std::size_t keep = 3);

  [[nodiscard]] std::string name() const override { return "snapshot"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] int priority() const override { return kPriorityLast; }
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

 private:
  std::size_t keep_;
};

}  // namespace mn::extensions

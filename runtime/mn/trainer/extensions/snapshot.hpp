/// Checkpoints during training.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/times.hpp>

namespace mn::extensions {

/// Writes OUT/ckpt/step-N once an epoch, unless another trigger is given, and at the end of training, beside training.
/// Then removes all but the `keep` of the most iterations, the best and pinned ones; later ones, of a run that this one
/// does not continue, are renamed to old_step-N. Runs after all other extensions, because it holds their states,
/// but before those that may take long and what follows them, which run again after a resume.
/// Trainer::resume() reads it.
class Snapshot final : public Extension {
 public:
  /// Throws UsageError unless keep ≥ 1. `continuous`, for a trigger of each iteration: the next save begins when the
  /// one before is complete, but not before training has taken 99 times as long as that has held it up and copied.
  explicit Snapshot(std::size_t keep = 3, bool continuous = false);

  [[nodiscard]] std::string name() const override { return "snapshot"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] int priority() const override { return kPriorityLast; }
  [[nodiscard]] bool saves() const override { return true; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

 private:
  using Clock = std::chrono::steady_clock;

  void save(Trainer& trainer);
  void remove_old(const std::filesystem::path& out);
  [[nodiscard]] std::int64_t next_after(Trainer& trainer) const;

  std::size_t keep_;
  bool continuous_;
  bool has_failed_ = false;       // to remove old ones; of the thread that does
  bool is_committed_ = false;     // continuous: the last save is, and next_ does not know it yet
  std::int64_t next_ = 0;         // continuous: no save before this iteration
  std::int64_t begun_at_ = 0;     // iteration of the last save
  Clock::time_point begun_ = {};  // and its time
  SavingTimes before_;            // then
};

}  // namespace mn::extensions

/// Checkpoints during training.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// Writes OUT/ckpt/step-N in the background, once an epoch unless extend() gives another trigger, and at the end of
/// training. Then removes old checkpoints: all but the `keep` of the most iterations, the best and the pinned.
/// Checkpoints of an abandoned run with later iterations are renamed to old_step-N.
/// Runs after the other short extensions, because a checkpoint holds their states. Extensions that may take long run
/// after Snapshot, and again after a resume. Trainer::resume() reads the checkpoints.
class Snapshot final : public Extension {
 public:
  /// Throws UsageError unless keep ≥ 1. With `continuous`, for a trigger of each iteration, a save begins when the
  /// previous save is complete and training has gone on for 99 times the time that the previous save stalled.
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
  bool has_failed_ = false;       // whether the last removal of old checkpoints failed; used by the removing thread
  bool is_committed_ = false;     // continuous: the last save is complete, and next_ does not count it yet
  std::int64_t next_ = 0;         // continuous: no save before this iteration
  std::int64_t begun_at_ = 0;     // iteration of the last save
  Clock::time_point begun_ = {};  // time of the last save
  double stalled_before_s_ = 0;   // Checkpointer::stalled_s() at the begin of the last save
};

}  // namespace mn::extensions

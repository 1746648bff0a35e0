/// Defines extensions that write checkpoints during training.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/monitor.hpp>

namespace mn::extensions {

/// Writes OUT/ckpt/step-N in the background, once an epoch unless extend() gives another trigger, and at the end of
/// training. After each save, removes all checkpoints but the `keep` with the most iterations, the best one and pinned
/// ones. Later checkpoints of an abandoned run are renamed to old_step-N. Snapshot runs after all short extensions,
/// because a checkpoint holds their states, and before extensions that may take long, which run again after a resume.
/// Trainer::resume() reads the checkpoints.
class Snapshot final : public Extension {
 public:
  /// Throws UsageError if `keep` is 0. If `continuous` is true, the trigger must fire in each iteration, and saves
  /// follow each other as fast as they may: a save begins when the previous save is complete, and when training has
  /// gone on for 99 times as long as the previous save has stalled the training.
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
  bool is_committed_ = false;     // if continuous: the last save is complete, next_ not yet set
  std::int64_t next_ = 0;         // if continuous: no save begins before this iteration
  std::int64_t begun_at_ = 0;     // iteration in which the last save began
  Clock::time_point begun_ = {};  // when the last save began
  double stalled_before_s_ = 0;   // Checkpointer::stalled_s() when the last save began
};

/// Writes a checkpoint whenever a report has the best monitored value so far. OUT/snapshot_best is a link to the best
/// checkpoint; Trainer::resume() and load_model() accept the link. Old checkpoints are removed, but never the best.
///
/// Let the log report in the iteration that computes the value; the saved weights are then the weights of the report.
/// Add the extension after the log and before Snapshot; all checkpoints then record the best checkpoint so far. A
/// resume sets the link to the best checkpoint of that time.
class BestSnapshot final : public Extension {
 public:
  /// `monitor` follows the value that decides. The `keep` newest checkpoints stay, as in Snapshot.
  explicit BestSnapshot(Monitor monitor, std::size_t keep = 3) : monitor_(std::move(monitor)), keep_(keep) {}

  [[nodiscard]] std::string name() const override { return "BestSnapshot"; }
  [[nodiscard]] int priority() const override { return kPriorityLast; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;
  [[nodiscard]] nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  void mark(const std::filesystem::path& out);

  Monitor monitor_;
  std::size_t keep_;
  std::optional<std::int64_t> best_;   // iteration of the best report
  std::optional<std::string> before_;  // state() before the best report, until a checkpoint has the report
  std::weak_ptr<bool> save_;           // expires when the save of the best checkpoint is over
  bool is_marked_ = true;              // rank 0: whether the link leads to the best checkpoint
  bool has_failed_ = false;
};

}  // namespace mn::extensions

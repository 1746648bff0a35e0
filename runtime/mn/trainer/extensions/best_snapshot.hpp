/// The checkpoint of the best report.
#pragma once

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

/// Writes a checkpoint whenever the monitored value is the best of those that have one; OUT/snapshot_best is a link to
/// it, which Trainer::resume() and load_model() take. The removal of old checkpoints leaves it alone. Looks for a new
/// report in every iteration: give the log a report where the value is made, as the weights are those of the report.
/// Add it after the log and before Snapshot, so that other checkpoints know the best too: a training that goes on from
/// one of them sets the link to the best until then.
class BestSnapshot final : public Extension {
 public:
  /// `monitor` says which value, and which is better; `keep` as Snapshot has it.
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
  std::optional<std::string> before_;  // state() without that report, until its checkpoint is complete
  std::weak_ptr<bool> save_;           // expires when that save is over
  bool is_marked_ = true;              // false: the link does not lead there yet; on rank 0
  bool has_failed_ = false;
};

}  // namespace mn::extensions

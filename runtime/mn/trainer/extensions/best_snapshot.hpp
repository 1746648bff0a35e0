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

/// Writes a checkpoint whenever a report has the best monitored value so far; OUT/snapshot_best is a link to that
/// checkpoint, and Trainer::resume() and load_model() accept the link. Old checkpoints are removed, but never the best.
///
/// Looks for a new report in every iteration. Let the log report in the iteration that computes the value: the saved
/// weights are the weights of the report. Add the extension after the log and before Snapshot: other checkpoints then
/// know the best checkpoint, and a training that resumes from one of them sets the link to the best until then.
class BestSnapshot final : public Extension {
 public:
  /// `monitor` follows the value; `keep` is the number of newest checkpoints to keep, as in Snapshot.
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
  std::optional<std::string> before_;  // state() without the best report, until its checkpoint is complete
  std::weak_ptr<bool> save_;           // expires when the save of the best report is over
  bool is_marked_ = true;              // rank 0: whether the link leads to the best checkpoint
  bool has_failed_ = false;
};

}  // namespace mn::extensions

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

/// Writes a checkpoint whenever the monitored value is the best so far; a report without the value does not count.
/// OUT/snapshot_best is a link to the checkpoint, for Trainer::resume() and load_model(), and keeps the checkpoint from
/// removal. BestSnapshot looks for a new report in every iteration. Let the log report in the iteration of the
/// evaluation: the saved weights are the weights at the report. Add BestSnapshot after the log and before Snapshot:
/// then every checkpoint holds the best iteration so far, and a resume sets the link back to it.
class BestSnapshot final : public Extension {
 public:
  /// `monitor` has the name of the value, and whether lower or higher is better. `keep`: as in Snapshot.
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
  bool is_marked_ = true;              // false: the link does not lead to the best checkpoint yet; on rank 0
  bool has_failed_ = false;            // whether the last attempt to set the link failed
};

}  // namespace mn::extensions

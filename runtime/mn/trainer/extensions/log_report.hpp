/// Writes OUT/log: the reports of a training, as a JSON list with one object for each report.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/trainer/extension.hpp>

namespace mn::extensions {

class ListFile;

/// Each entry holds epoch, iteration, elapsed_time (seconds), lr (the first optimizer's learning rate), "lr/NAME" for
/// each further optimizer, "lr/GROUP" or "lr/NAME/GROUP" for each further group of parameters
/// (MultiNodeOptimizer::group_name()) whose rate has differed from the first group's, and the values of
/// Trainer::take_observation(): images_per_second, bytes_per_step, the means of metrics ("main/loss", …) and the values
/// of evaluators ("validation/main/loss", …). The entry has all values that extensions report in its iteration, whether
/// they run before or after the log. Means are over all ranks. A value that is not finite is null.
///
/// Runs once an epoch by default, and at the end of training; a second call in an iteration does nothing. Rank 0
/// appends to the file so that readers find a whole JSON list at any time. If a write fails, rank 0 logs a warning, and
/// the next write contains its entries.
///
/// A resumed run continues after the checkpoint's last entry; its first report removes later entries. Checkpoints hold
/// the file's length and checksum: if the file is lost, a warning is logged, and the log starts again empty. The entry
/// at the end of training is not in checkpoints: a run with more epochs reports this part of a period again, together
/// with the rest of the period.
class LogReport final : public Extension {
 public:
  /// How many of the newest entries are kept in memory. The file has all entries.
  static constexpr std::size_t kEntries = 1000;

  LogReport();
  ~LogReport() override;

  [[nodiscard]] std::string name() const override { return "LogReport"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void at_end(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;
  bool take_report(Trainer& trainer, const std::string& name, double value) override;
  [[nodiscard]] nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

  /// Returns the number called `name` ("main/loss", …) in the last entry; NaN if the entry has null in its place. If
  /// the entry has no number of this name, throws an ArgumentError that lists the names.
  [[nodiscard]] double last(const std::string& name) const;
  /// The last kEntries entries, on every rank. The file has all entries. elapsed_time, images_per_second and
  /// bytes_per_step are this rank's values here, and rank 0's in the file and in entries from before a resume. Reading
  /// an entry needs <nlohmann/json.hpp>.
  [[nodiscard]] const std::vector<nlohmann::json>& entries() const noexcept { return entries_; }
  /// Returns how many entries were made or loaded so far. The number never falls.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// For an extension `reader` that reads the log: call it in Extension::initialize(). Returns how many entries
  /// `reader` has read. This is count() or, if `reader` is pending in the last entry's iteration, one less, because
  /// `reader` must still read that entry.
  [[nodiscard]] std::int64_t count_read_by(const Extension& reader, const Trainer& trainer) const;
  /// Returns the entries that were added since count() was `count`, at most kEntries.
  [[nodiscard]] std::span<const nlohmann::json> since(std::int64_t count) const;

 private:
  void resume(Trainer& trainer, const nlohmann::json& state);
  [[nodiscard]] bool has_entry(const Trainer& trainer) const;
  void add(Trainer& trainer);
  void add_rates(const Trainer& trainer, nlohmann::json& entry) const;
  void keep(std::vector<nlohmann::json> entries);

  std::vector<nlohmann::json> entries_;
  std::int64_t count_ = 0;
  bool is_rest_ = false;                      // the last entry was added by at_end()
  std::unique_ptr<nlohmann::json> restored_;  // a checkpoint's state, until initialize()
  std::unique_ptr<ListFile> file_;            // on rank 0
  bool has_failed_ = false;
};

}  // namespace mn::extensions

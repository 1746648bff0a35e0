/// Writes OUT/log: a JSON list with one object for each report of a training.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/trainer/extension.hpp>

namespace mn::extensions {

class ListFile;

/// Each entry holds epoch, iteration, elapsed_time (in seconds), learning rates, and Trainer::take_observation():
/// images_per_second, bytes_per_step, the means of metrics ("main/loss", …) over all ranks, and values of evaluators
/// ("validation/main/loss", …). "lr" is the learning rate of the first optimizer, and "lr/NAME" of a further optimizer
/// NAME. A further group of parameters (MultiNodeOptimizer::group_name()) has "lr/GROUP" or "lr/NAME/GROUP" once its
/// rate has differed from the first group's. Values that extensions report later in the entry's iteration are in the
/// entry, too. A value that is not finite is null.
///
/// Runs once an epoch by default, and at the end of training. A second call of run() in the same iteration does
/// nothing. Rank 0 appends to the file so that readers find a whole JSON list at any time. If a write fails, rank 0
/// logs a warning, and the next write also writes the entries of the failed write.
///
/// A resumed run continues the log after the last entry of the checkpoint, and its first report removes later entries
/// from the file. Checkpoints hold only the file's length and checksum; if the file is lost, a warning is logged, and
/// the log starts again empty. The entry at the end of training is not in checkpoints, because a run with more epochs
/// reports this part of a period again, together with the rest of the period.
class LogReport final : public Extension {
 public:
  /// How many of the newest entries are kept in memory. The file has all entries.
  static constexpr std::size_t kEntries = 1000;

  /// Changes an entry before it is written: adds values that follow from others, on every rank.
  using Derive = std::function<void(nlohmann::json& entry)>;

  /// An empty `derive` changes nothing.
  explicit LogReport(Derive derive = {});
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

  /// Returns the number called `name` ("main/loss", …) in the last entry. Returns NaN if the entry has null under this
  /// name. If the entry has no such number, throws an ArgumentError that lists the names.
  [[nodiscard]] double last(const std::string& name) const;
  /// Returns the last kEntries entries, on every rank. The file has all entries. In the entries of this run,
  /// elapsed_time, images_per_second and bytes_per_step are this rank's values; in the file, and in entries from before
  /// a resume, they are rank 0's values. A program that reads an entry must include <nlohmann/json.hpp>.
  [[nodiscard]] const std::vector<nlohmann::json>& entries() const noexcept { return entries_; }
  /// Returns how many entries were made or loaded so far. The number never falls.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// For Extension::initialize() of an extension that reads the log: returns how many entries `reader` has read. This
  /// is count() − 1 if `reader` is pending in the last entry's iteration, otherwise count().
  [[nodiscard]] std::int64_t count_read_by(const Extension& reader, const Trainer& trainer) const;
  /// Returns the entries added since count() had the value `count`, at most kEntries of them.
  [[nodiscard]] std::span<const nlohmann::json> since(std::int64_t count) const;

 private:
  void resume(Trainer& trainer, const nlohmann::json& state);
  [[nodiscard]] bool has_entry(const Trainer& trainer) const;
  void add(Trainer& trainer);
  void add_rates(const Trainer& trainer, nlohmann::json& entry) const;
  void keep(std::vector<nlohmann::json> entries);

  Derive derive_;
  std::vector<nlohmann::json> entries_;
  std::int64_t count_ = 0;
  bool is_rest_ = false;                      // the last entry was added by at_end()
  std::unique_ptr<nlohmann::json> restored_;  // state from a checkpoint, until initialize()
  std::unique_ptr<ListFile> file_;            // on rank 0
  bool has_failed_ = false;
};

}  // namespace mn::extensions

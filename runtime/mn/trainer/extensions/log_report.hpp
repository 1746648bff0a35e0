/// OUT/log: what training reports, as a JSON list with one object for each report.
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

/// Each entry holds epoch, iteration, elapsed_time (seconds), lr (of several optimizers the first's, and "lr/NAME" of
/// the others) and Trainer::take_observation(): images_per_second, bytes_per_step, the means of metrics ("main/loss",
/// …) and what evaluators reported ("validation/main/loss", …). What other extensions report in the same iteration
/// belongs to the entry, whatever their order.
/// Means are over all ranks; a value that is not finite is null. Runs once an epoch, unless another trigger is given,
/// and at the end of training; a second call in an iteration does nothing. Rank 0 appends to the file, which readers
/// find whole at any time. A write that fails is a warning, and its entries come with the next one.
/// A resumed run goes on after the checkpoint's last entry, and removes those that follow it, with its first report.
/// Checkpoints hold the file's length and checksum: where the file is lost, a line says so, and it begins anew. The
/// entry at the end of training is not in them: a run that goes on from there reports that part again, with the rest of
/// its period.
class LogReport final : public Extension {
 public:
  /// Entries that a program can read, the newest: memory does not grow with a training.
  static constexpr std::size_t kEntries = 1000;

  LogReport();
  ~LogReport() override;
  LogReport(const LogReport&) = delete;
  LogReport& operator=(const LogReport&) = delete;

  [[nodiscard]] std::string name() const override { return "LogReport"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void at_end(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;
  bool take_report(Trainer& trainer, const std::string& name, double value) override;
  [[nodiscard]] nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

  /// The number of that name in the last entry, such as "main/loss"; NaN where it is null. Throws ArgumentError that
  /// lists the names for any other.
  [[nodiscard]] double last(const std::string& name) const;
  /// The last kEntries entries, on every rank; the file has all. Those of elapsed_time, images_per_second and
  /// bytes_per_step are this rank's; the file has rank 0's, as have those before a resume. Reading them needs
  /// <nlohmann/json.hpp>.
  [[nodiscard]] const std::vector<nlohmann::json>& entries() const noexcept { return entries_; }
  /// Entries made and read so far; it never falls.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// For initialize() of an extension that reads the log: count() without the entry that `reader` is still to read,
  /// which is of the iteration in which it is pending.
  [[nodiscard]] std::int64_t count_read_by(const Extension& reader, const Trainer& trainer) const;
  /// The entries since count() was `count`, kEntries at most.
  [[nodiscard]] std::span<const nlohmann::json> since(std::int64_t count) const;

 private:
  void resume(Trainer& trainer, const nlohmann::json& state);
  [[nodiscard]] bool has_entry(const Trainer& trainer) const;
  void add(Trainer& trainer);
  void keep(std::vector<nlohmann::json> entries);

  std::vector<nlohmann::json> entries_;
  std::int64_t count_ = 0;
  bool is_rest_ = false;                      // the last entry is that at the end
  std::unique_ptr<nlohmann::json> restored_;  // a checkpoint's state, until initialize()
  std::unique_ptr<ListFile> file_;            // rank 0's
  bool has_failed_ = false;
};

}  // namespace mn::extensions

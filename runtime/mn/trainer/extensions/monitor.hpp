/// Finds out whether a monitored value improves, for all extensions that depend on a value of the log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/core/metric.hpp>
#include <mn/trainer/extensions/log_report.hpp>

namespace mn::extensions {

using mn::Better;
using mn::better_of;

/// Throws UsageError if `value` is elapsed_time, images_per_second or bytes_per_step, because these values differ
/// between ranks.
void check_monitored(const std::string& value);

/// Returns the name in `names` that `value` seems to misspell, part by part between slashes, if any. A usual metric
/// such as "auc" does not count as a misspelled "acc", because it may be reported later.
[[nodiscard]] std::optional<std::string> misspelled(const std::string& value, const std::vector<std::string>& names);

/// Follows one value of the log. All ranks see equal values, so the functions return the same on all ranks.
class Monitor {
 public:
  /// `log` must outlive this object. `value` names a value of the log, such as "validation/main/loss". A new value
  /// counts as better only if it is better than the best value so far by more than `min_delta` (Keras' min_delta).
  /// Throws UsageError if check_monitored(value) throws, or if min_delta is not ≥ 0.
  Monitor(const LogReport& log, std::string value, Better better, double min_delta = 0);

  /// For Extension::initialize() of `reader`, the owner of this object: ignores entries that `reader` has read.
  void begin(const Extension& reader, const Trainer& trainer) { read_ = log_.count_read_by(reader, trainer); }
  /// Reads the newest entry of the log. Returns true if its value is better than all earlier values; NaN is never
  /// better. Returns no value if there is no new entry, or if it lacks the monitored value, because evaluations may be
  /// less frequent than reports; rank 0 then logs the missing metric once. Throws a UsageError that lists the log's
  /// values if the name is nearly that of a reported value.
  [[nodiscard]] std::optional<bool> improved();
  /// Returns how many reports with the value have followed the best value or the last restart_wait().
  [[nodiscard]] std::int64_t waited() const noexcept { return waited_; }
  /// Sets waited() to 0.
  void restart_wait() noexcept { waited_ = 0; }
  /// True if the log has an entry that improved() has not read yet.
  [[nodiscard]] bool has_report() const { return log_.count() != read_; }
  /// For instance "NAME was not better in 3 reports (best 0.25)", or "(never a number)" without a best value.
  [[nodiscard]] std::string wait_text() const;
  /// Returns the state for a checkpoint.
  [[nodiscard]] nlohmann::json state() const;
  /// Loads `state`, a result of state(), and returns true. If the state belongs to a different value or direction, logs
  /// this fact, forgets the best value and waited(), and returns false.
  bool load_state(const nlohmann::json& state);

 private:
  void check_name(const nlohmann::json& entry);

  const LogReport& log_;
  std::string value_;
  Better better_;
  double min_delta_;
  std::int64_t read_ = 0;  // number of the log's entries that were read
  bool found_ = false;     // whether an entry had the value
  bool warned_ = false;    // whether rank 0 has logged the missing metric
  bool has_best_ = false;
  double best_ = 0;
  std::int64_t waited_ = 0;
};

}  // namespace mn::extensions

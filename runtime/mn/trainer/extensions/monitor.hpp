/// Tells whether a metric improves. The extensions that act on a metric share this code.
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

/// Throws UsageError for the values of the log that differ between ranks: elapsed_time, images_per_second,
/// bytes_per_step.
void check_monitored(const std::string& value);

/// The name in `names` for which `value` seems to be a misspelling: each part of `value` between slashes is equal or
/// nearly equal to the same part of the name. Returns no value if `value` ends with the usual name of a metric, such as
/// "auc", and `names` have only a similar name, such as "acc": the metric may be reported later.
[[nodiscard]] std::optional<std::string> misspelled(const std::string& value, const std::vector<std::string>& names);

/// Follows one value of the log. Every rank sees the same values and gets the same answers.
class Monitor {
 public:
  /// `log` must outlive this object. `value` names a value of the log, such as "validation/main/loss". A value is
  /// better only if it is better than the best value so far by more than `min_delta` (Keras' min_delta). Throws
  /// UsageError if check_monitored(value) throws, or if min_delta is not ≥ 0.
  Monitor(const LogReport& log, std::string value, Better better, double min_delta = 0);

  /// The owning extension calls begin() in Extension::initialize(); improved() then ignores entries that the extension
  /// has already read.
  void begin(const Extension& reader, const Trainer& trainer);
  /// Reads the newest entry of the log. Returns true if the entry's value is better than all earlier values; NaN is
  /// never better. Returns no value if there is no new entry or the entry lacks the value, because evaluations and
  /// their metrics may be rarer than reports; rank 0 logs a missing metric once. If the name is nearly the name of a
  /// reported value, throws UsageError that lists the log's values.
  [[nodiscard]] std::optional<bool> improved();
  /// Number of reports with the value since the best value, or since restart_wait() if that was later.
  [[nodiscard]] std::int64_t waited() const noexcept { return waited_; }
  /// Counts waited() from 0.
  void restart_wait() noexcept { waited_ = 0; }
  /// Whether the log has an entry that improved() has not read.
  [[nodiscard]] bool has_report() const { return log_.count() != read_; }
  /// "NAME was not better in 3 reports (best 0.25)". The text in parentheses is "never a number" before the first
  /// value.
  [[nodiscard]] std::string wait_text() const;
  /// State for a checkpoint.
  [[nodiscard]] nlohmann::json state() const;
  /// Loads a state(), and returns true. If the state belongs to a different value or direction, logs the difference,
  /// forgets the best value and waited(), and returns false.
  bool load_state(const nlohmann::json& state);

 private:
  void check_name(const nlohmann::json& entry);

  const LogReport& log_;
  std::string value_;
  Better better_;
  double min_delta_;
  std::int64_t read_ = 0;  // number of entries read from the log
  bool found_ = false;     // an entry had the value
  bool warned_ = false;    // the log says that an evaluation lacked the value
  bool has_best_ = false;
  double best_ = 0;
  std::int64_t waited_ = 0;
};

}  // namespace mn::extensions

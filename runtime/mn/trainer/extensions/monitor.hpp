/// What extensions that act on a metric have in common: whether it gets better.
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

/// Throws UsageError for values of the log that each rank measures itself: elapsed_time, images_per_second,
/// bytes_per_step.
void check_monitored(const std::string& value);

/// The one of `names` that `value`, which is not among them, seems to be a misspelling of: each part between slashes is
/// the same or nearly so. No value for the usual name of a metric, such as "auc" beside "acc": it may come later.
[[nodiscard]] std::optional<std::string> misspelled(const std::string& value, const std::vector<std::string>& names);

/// Follows one value of the log. Every rank sees the same values, so all come to the same answers.
class Monitor {
 public:
  /// `log` must outlive this. `value` is one of its values over all ranks, such as "validation/main/loss". Throws
  /// as check_monitored() does.
  Monitor(const LogReport& log, std::string value, Better better);

  /// Call it in Extension::initialize() of the extension that has it: entries that this has read are not news.
  void begin(const Extension& reader, const Trainer& trainer);
  /// Reads the newest entry of the log: true if its value is better than all before. What is not a number never is. No
  /// value if there is no new entry, or if it lacks the value: an evaluation may be rarer than reports, and so may a
  /// metric of it be, which rank 0 then logs once. Throws UsageError that lists the log's values for a name that is
  /// nearly another's.
  [[nodiscard]] std::optional<bool> improved();
  /// Whether there is a report that improved() has not seen.
  [[nodiscard]] bool has_report() const { return log_.count() != read_; }
  /// The name of the value.
  [[nodiscard]] const std::string& value() const noexcept { return value_; }
  /// "best 0.25", or that there was none yet.
  [[nodiscard]] std::string best_text() const;
  /// For a checkpoint.
  [[nodiscard]] nlohmann::json state() const;
  /// Replaces the best by that of a state(), and is true. False, with a line and without a best, if that is of another
  /// value, or another direction.
  [[nodiscard]] bool load_state(const nlohmann::json& state);

 private:
  void check_name(const nlohmann::json& entry);

  const LogReport& log_;
  std::string value_;
  Better better_;
  std::int64_t read_ = 0;  // entries of the log
  bool found_ = false;     // an entry has had the value
  bool warned_ = false;    // one has had others of the same evaluation
  bool has_best_ = false;
  double best_ = 0;
};

}  // namespace mn::extensions

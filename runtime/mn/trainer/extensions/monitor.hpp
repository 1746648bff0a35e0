/// What extensions that act on a metric have in common: whether it gets better.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include <mn/trainer/extensions/log_report.hpp>

namespace mn::extensions {

/// Which values of a metric are better.
enum class Better : std::uint8_t { kLower, kHigher };

/// Higher for a name with "accuracy", else lower: losses, errors, perplexities.
[[nodiscard]] Better better_of(const std::string& name);

/// Follows one value of the log. Every rank sees the same values, so all come to the same answers.
class Monitor {
 public:
  /// `log` must outlive this. `value` is one of its values over all ranks, such as "validation/main/loss". Throws
  /// UsageError for those that each rank measures itself (elapsed_time, images_per_second, bytes_per_step).
  Monitor(const LogReport& log, std::string value, Better better);

  /// Reads the newest entry of the log; true if its value is better than all before. What is not a number never is.
  /// Throws UsageError that lists the log's values if it has no such one.
  [[nodiscard]] bool improved();
  /// The name of the value.
  [[nodiscard]] const std::string& value() const noexcept { return value_; }
  /// "best 0.25", or that there was none yet.
  [[nodiscard]] std::string best_text() const;
  /// As the log's, for the extension that uses this.
  [[nodiscard]] Interval trigger() const { return log_.trigger(); }

  /// For a checkpoint.
  [[nodiscard]] nlohmann::json state() const;
  /// Replaces the best by that of a state().
  void load_state(const nlohmann::json& state);

 private:
  const LogReport& log_;
  std::string value_;
  Better better_;
  bool has_best_ = false;
  double best_ = 0;
};

}  // namespace mn::extensions

/// The end of a training that has diverged.
#pragma once

#include <string>
#include <utility>

#include <mn/train/extension.hpp>
#include <mn/train/extensions/log_report.hpp>

namespace mn::extensions {

/// Chainer's FailOnNonNumber: where the newest entry of the log has a `value` that is NaN or infinite, throws DataError
/// on all ranks alike, before a snapshot is written. Add it after the log, with its trigger.
class FailOnNonNumber final : public Extension {
 public:
  /// `log` is the same trainer's.
  explicit FailOnNonNumber(const LogReport& log, std::string value = "main/loss")
      : log_(log), value_(std::move(value)) {}

  [[nodiscard]] std::string name() const override { return "FailOnNonNumber"; }
  [[nodiscard]] Interval trigger() const override { return log_.trigger(); }
  void run(Trainer& trainer) override;

 private:
  const LogReport& log_;
  std::string value_;
};

}  // namespace mn::extensions

/// Ends a training that has diverged.
#pragma once

#include <string>
#include <utility>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/log_report.hpp>

namespace mn::extensions {

/// Chainer's FailOnNonNumber: if `value` in the newest entry of the log is NaN or infinite, throws the same DataError
/// on every rank, before a snapshot is written. Add it after the log, with the log's trigger.
class FailOnNonNumber final : public Extension {
 public:
  /// `log` is the same trainer's and must live as long as this; `value` is one of its values.
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

/// Ends a training that has diverged.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/log_report.hpp>

namespace mn::extensions {

/// Chainer's FailOnNonNumber: if `value` in the newest entry of the log is NaN or infinite, throws the same DataError
/// on every rank; a snapshot before a validation
/// of that iteration may be there already. Looks for a new entry in every iteration. A loss
/// ("main/loss") on the CPU is read in its step: the rank where it is not finite throws, before the ranks reduce
/// gradients. On a GPU the error at the report says on which rank and in which iteration it was so first. Losses that a
/// GradScaler scales may overflow, so there the log alone decides.
class FailOnNonNumber final : public Extension {
 public:
  /// `log` is the same trainer's and must live as long as this; `value` is one of its values.
  explicit FailOnNonNumber(const LogReport& log, std::string value = "main/loss")
      : log_(log), value_(std::move(value)) {}

  [[nodiscard]] std::string name() const override { return "FailOnNonNumber"; }
  [[nodiscard]] int priority() const override { return kPriorityReport; }
  void initialize(Trainer& trainer) override;
  void after_forward(Trainer& trainer, const at::Tensor& loss) override;
  void run(Trainer& trainer) override;

 private:
  [[nodiscard]] std::string first_text(Trainer& trainer) const;

  const LogReport& log_;
  std::string value_;
  std::int64_t read_ = 0;  // entries of the log
  at::Tensor first_;       // on the device: the first iteration with a loss that is not finite, 0 if there is none
};

}  // namespace mn::extensions

/// Ends a training whose loss has become NaN or infinite.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/log_report.hpp>

namespace mn::extensions {

/// Chainer's FailOnNonNumber: throws the same DataError on every rank if `value` is NaN or infinite in the newest entry
/// of the log. Looks for a new entry in every iteration. If a validation adds the bad value to the entry, a snapshot
/// that ran before the validation may already be written.
///
/// If `value` is the loss ("main/loss"), each loss on a CPU is read in its step: a rank whose loss is not finite throws
/// before the ranks reduce gradients. On a GPU, the error comes with the report, and names the rank and the iteration
/// of the first loss that was not finite. Losses that a GradScaler scales may overflow; therefore with a GradScaler
/// only the log decides.
class FailOnNonNumber final : public Extension {
 public:
  /// `log` belongs to the same trainer, and must outlive this extension. `value` names the value of the log to look at.
  explicit FailOnNonNumber(const LogReport& log, std::string value = "main/loss")
      : log_(log), value_(std::move(value)) {}

  [[nodiscard]] std::string name() const override { return "FailOnNonNumber"; }
  [[nodiscard]] int priority() const override { return kPriorityReport; }
  void initialize(Trainer& trainer) override { read_ = log_.count_read_by(*this, trainer); }
  void after_forward(Trainer& trainer, const at::Tensor& loss) override;
  void run(Trainer& trainer) override;

 private:
  [[nodiscard]] std::string first_text(Trainer& trainer) const;

  const LogReport& log_;
  std::string value_;
  std::int64_t read_ = 0;  // number of the log's entries that were read
  at::Tensor first_;       // first iteration with a bad loss, or 0; on the device
};

}  // namespace mn::extensions

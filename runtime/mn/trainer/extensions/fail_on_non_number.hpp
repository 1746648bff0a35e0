/// Ends a training whose loss has become NaN or infinite.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/log_report.hpp>

namespace mn::extensions {

/// Throws the same DataError on every rank if the value named `value` is NaN or infinite in the newest entry of the log
/// (Chainer's FailOnNonNumber). Looks for a new entry in every iteration. If the bad value comes from a validation, a
/// snapshot may already be written, because snapshots can run before the validation.
///
/// If `value` is "main/loss", each step on a CPU reads its loss, and a rank with a bad loss throws before the ranks
/// reduce gradients. On a GPU, the error comes with the report, and names the rank and the iteration of the first bad
/// loss. With a GradScaler, only the log is checked, because scaled losses may overflow.
class FailOnNonNumber final : public Extension {
 public:
  /// `log` belongs to the same trainer, and must outlive this extension. `value` is the name of the log's value to
  /// check.
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
  at::Tensor first_;       // iteration of the first bad loss, or 0; on the device
};

}  // namespace mn::extensions

/// OUT/tensorboard: the log for TensorBoard (`tensorboard --logdir OUT`).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/log_report.hpp>

namespace mn::extensions {

class EventFile;

/// Rank 0 writes every number of each report as a scalar, once an epoch, unless another trigger is given, and at
/// the end. A run that resumes replaces the steps that follow its checkpoint, and that of the checkpoint where this is
/// pending.
class TensorBoard final : public Extension {
 public:
  /// `log` is the same trainer's and must live as long as this; `text`, Markdown, is shown beside the curves.
  explicit TensorBoard(const LogReport& log, std::string text = "");
  ~TensorBoard() override;
  TensorBoard(const TensorBoard&) = delete;
  TensorBoard& operator=(const TensorBoard&) = delete;

  [[nodiscard]] std::string name() const override { return "TensorBoard"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] int priority() const override { return kPriorityReport; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

  /// For extensions of a job's own, after initialize(): adds `encoded`, a PNG or JPEG file of that size in pixels.
  /// Nothing happens on other ranks than 0.
  void add_image(const Trainer& trainer, const std::string& tag, std::string_view encoded, std::int64_t height,
                 std::int64_t width);
  /// Likewise: a text in Markdown.
  void add_text(const Trainer& trainer, const std::string& tag, const std::string& text);

 private:
  void flush();

  const LogReport& log_;
  std::string text_;
  std::unique_ptr<EventFile> file_;  // rank 0's
  std::int64_t written_ = 0;         // entries of the log
  bool has_failed_ = false;
};

}  // namespace mn::extensions

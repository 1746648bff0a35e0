/// Writes the log for TensorBoard, into the folder OUT/tensorboard (`tensorboard --logdir OUT` shows it).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/log_report.hpp>

namespace mn::extensions {

class EventFile;

/// Rank 0 writes every number of each report as a scalar, once an epoch by default, and at the end. A resumed run
/// replaces the steps after its checkpoint. If this extension was pending in the checkpoint, the run also replaces the
/// checkpoint's own step.
class TensorBoard final : public Extension {
 public:
  /// `log` belongs to the same trainer, and must outlive this extension. `text` is a text in Markdown that TensorBoard
  /// shows beside the curves.
  explicit TensorBoard(const LogReport& log, std::string text = "");
  ~TensorBoard() override;

  [[nodiscard]] std::string name() const override { return "TensorBoard"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] int priority() const override { return kPriorityReport; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

  /// For a job's own extensions; call it after initialize(). Adds an image. `encoded` is the content of a PNG or JPEG
  /// file; `height` and `width` are in pixels. Only rank 0 writes.
  void add_image(const Trainer& trainer, const std::string& tag, std::string_view encoded, std::int64_t height,
                 std::int64_t width);
  /// For a job's own extensions; call it after initialize(). Adds a text in Markdown. Only rank 0 writes.
  void add_text(const Trainer& trainer, const std::string& tag, const std::string& text);
  /// As add_image(), for a histogram of a tensor's finite values, if there are any. The tensor may be on any device.
  void add_histogram(const Trainer& trainer, const std::string& tag, const at::Tensor& values);

 private:
  void flush();

  const LogReport& log_;
  std::string text_;
  std::unique_ptr<EventFile> file_;  // on rank 0
  std::int64_t written_ = 0;         // number of log entries written so far
  bool has_failed_ = false;
};

}  // namespace mn::extensions

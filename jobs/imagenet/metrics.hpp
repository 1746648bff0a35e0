/// The metrics of jobs/imagenet except the loss, and a log of each rank's samples.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/loader/loader.hpp>
#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/appended_file.hpp>
#include <mn/trainer/summary.hpp>

namespace mn::jobs {

/// The label of each sample; of a mixture of two images, the label with the larger share.
[[nodiscard]] at::Tensor labels_of(const at::Tensor& target);

/// Adds two metrics to `report`. "accuracy" is the share of the samples whose label has the best logit. "accuracy_top5"
/// is the share of the samples whose label has one of the five best logits.
void add_accuracy(Summary& report, const at::Tensor& logits, const at::Tensor& target);

/// Reports three values. "data_wait": the longest time, in seconds, that a rank has waited for data since the last
/// report. "corrupt": the number of damaged samples that all ranks have replaced in the epoch. "gpu_memory_gib", on
/// GPUs: the largest peak of GPU memory so far.
class ResourceReport final : public Extension {
 public:
  ResourceReport(std::shared_ptr<const DataLoader> loader, Interval period)
      : loader_(std::move(loader)), period_(period) {}

  [[nodiscard]] std::string name() const override { return "ResourceReport"; }
  [[nodiscard]] Interval trigger() const override { return period_; }
  [[nodiscard]] int priority() const override { return kPriorityWriter; }
  void run(Trainer& trainer) override;
  void at_end(Trainer& trainer) override { run(trainer); }

 private:
  std::shared_ptr<const DataLoader> loader_;
  Interval period_;
  double waited_s_ = 0;
};

/// Ends training with an error if all ranks together have replaced more than `most` damaged samples in an epoch. Checks
/// only from time to time, because the check is a collective call.
class CorruptLimit final : public Extension {
 public:
  CorruptLimit(std::shared_ptr<const DataLoader> loader, std::int64_t most) : loader_(std::move(loader)), most_(most) {}

  [[nodiscard]] std::string name() const override { return "CorruptLimit"; }
  [[nodiscard]] Interval trigger() const override { return {10, IntervalUnit::kIteration}; }
  void run(Trainer& trainer) override;

 private:
  std::shared_ptr<const DataLoader> loader_;
  std::int64_t most_;
};

/// Writes a file OUT/samples/from-ITERATION-rank-RANK.txt for each start of the job and each rank. In each iteration,
/// the rank adds a line with the number of the iteration, the epoch (from 0), and the indices of its samples in the
/// dataset. If a run resumes from an iteration, lines of earlier runs after this iteration do not count.
class SampleLog final : public Extension {
 public:
  void add(const Batch& batch) { samples_ = batch.indices; }

  [[nodiscard]] std::string name() const override { return "SampleLog"; }
  /// Runs before validations: if a signal interrupts a validation, the resumed run no longer knows the samples.
  [[nodiscard]] int priority() const override { return kPriorityWriter + 1; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

 private:
  std::optional<extensions::AppendedFile> file_;
  bool has_failed_ = false;
  std::int64_t epoch_ = 0;
  std::vector<std::int64_t> samples_;
};

}  // namespace mn::jobs

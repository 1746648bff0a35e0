/// A log of the samples of each rank's training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mn/loader/iterator.hpp>
#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/appended_file.hpp>

namespace mn::jobs {

/// Writes OUT/samples/from-ITERATION-rank-RANK.txt, one file for each start of the job and each rank. Each iteration
/// adds a line with its number, its epoch (from 0) and the indices of this rank's samples in the dataset. If a run was
/// killed, lines after the iteration from which the next run resumes do not count.
class SampleLog final : public Extension {
 public:
  /// Notes the samples of the current iteration.
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

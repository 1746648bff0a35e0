/// Which samples each rank has trained on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mn/loader/iterator.hpp>
#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/appended_file.hpp>

namespace mn::jobs {

/// Writes OUT/samples/from-ITERATION-rank-RANK.txt, one file for each start of the job and each rank: after an
/// iteration a line with its number, its epoch (from 0) and this rank's samples, as numbers in the dataset. Of a run
/// that was killed, the lines after the iteration from which the next one resumes do not count.
class SampleLog final : public Extension {
 public:
  /// The samples of the iteration under way.
  void add(const Batch& batch) { samples_ = batch.indices; }

  [[nodiscard]] std::string name() const override { return "SampleLog"; }
  /// Before a validation, which a signal may interrupt: a resumed run does not know the samples any more.
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

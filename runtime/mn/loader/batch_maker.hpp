/// Makes the batch of one step: reads the samples, transforms them, and copies the tensors to the device.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/data/sampler.hpp>
#include <mn/loader/batch.hpp>
#include <mn/loader/batch_budget.hpp>
#include <mn/loader/batch_copier.hpp>
#include <mn/loader/loader_options.hpp>
#include <mn/loader/transform_team.hpp>

namespace mn {

/// When a thread began a batch, had read its samples, and had transformed them.
struct BatchTimes {
  using Time = std::chrono::steady_clock::time_point;
  Time begun = {};
  Time read = {};
  Time transformed = {};
};

struct LoadedBatch {
  Batch batch;
  CopyTicket copied;
  BatchBytes bytes;
  BatchTimes times;
  std::vector<SampleError> damaged;  // damaged samples that were replaced
};

/// Makes the batches of one dataset. Thread-safe.
class BatchMaker {
 public:
  /// At most `threads` threads transform at a time. `options` must outlive this object.
  BatchMaker(std::shared_ptr<const Dataset> source, const LoaderOptions& options, int threads);

  /// Makes the batch of `step`. Reads its samples into `raw`; pass the same object to the next call, which reuses its
  /// memory. If several threads call make(), the batch with the lowest `order` is transformed first. Throws the errors
  /// of reading and transforming.
  [[nodiscard]] LoadedBatch make(const SamplerStep& step, std::int64_t order, RawSamples& raw) const;
  /// From now on make() throws before it transforms a batch.
  void end() { ends_ = true; }
  /// The error for `count` damaged samples in an epoch, more than max_corrupt; names the last element of `damaged`.
  [[nodiscard]] DataError too_many(std::int64_t count, const std::vector<SampleError>& damaged) const;

 private:
  /// Reads and transforms the samples of a batch. Repeats this with replacements until no sample is damaged.
  [[nodiscard]] std::vector<BatchField> read(const SamplerStep& step, std::int64_t order,
                                             std::vector<std::int64_t>& indices, RawSamples& raw,
                                             LoadedBatch& made) const;
  [[nodiscard]] Transformed transform(RawBatch& batch, std::int64_t order, std::vector<SampleError>& damaged) const;

  std::shared_ptr<const Dataset> source_;
  const LoaderOptions* options_;
  BatchCopier copier_;
  mutable TransformTeam team_;
  std::atomic<bool> ends_ = false;
};

}  // namespace mn

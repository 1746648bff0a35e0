/// From a step's indices to a batch: read, transformed, on its way to the device.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/data/sampler.hpp>
#include <mn/loader/batch_budget.hpp>
#include <mn/loader/batch_copier.hpp>
#include <mn/loader/loader_options.hpp>
#include <mn/loader/transform_team.hpp>

namespace mn {

/// When a batch came to its next stage.
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
  std::vector<SampleError> damaged;  // that others replace
};

/// Thread-safe.
class BatchMaker {
 public:
  /// `threads`: those that transform at a time. `options` must outlive it.
  BatchMaker(std::shared_ptr<const Dataset> source, const LoaderOptions& options, int threads);

  /// `raw` gets the samples; it keeps its memory for the next one. Of several batches, that of the lowest `order` is
  /// transformed first. Throws what reading and transforming throw.
  [[nodiscard]] LoadedBatch make(const SamplerStep& step, std::int64_t order, RawSamples& raw) const;
  /// From now on nothing is transformed.
  void end() { ends_ = true; }
  /// What to throw where so many samples of an epoch were damaged, `damaged` the last of them.
  [[nodiscard]] DataError too_many(std::int64_t count, const std::vector<SampleError>& damaged) const;

 private:
  /// Reads and transforms; replaces damaged samples by others until none is left.
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

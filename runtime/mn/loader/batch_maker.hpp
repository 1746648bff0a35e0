/// Makes a step's batch: reads, transforms, copies to the device.
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

/// The times at which a batch finished its phases.
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
  /// At most `threads` threads transform at a time. `options` must outlive the object.
  BatchMaker(std::shared_ptr<const Dataset> source, const LoaderOptions& options, int threads);

  /// Reads the samples into `raw`; reuse `raw` for the next batch, as it keeps its memory. Of several batches, the
  /// batch with the lowest `order` is transformed first. Throws the errors of reading and transforming.
  [[nodiscard]] LoadedBatch make(const SamplerStep& step, std::int64_t order, RawSamples& raw) const;
  /// From now on nothing is transformed.
  void end() { ends_ = true; }
  /// The error for `count` damaged samples in an epoch; the last of `damaged` is the most recent.
  [[nodiscard]] DataError too_many(std::int64_t count, const std::vector<SampleError>& damaged) const;

 private:
  /// Reads and transforms; replaces damaged samples until all are good.
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

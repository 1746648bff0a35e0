/// From a step's indices to a batch: read, transformed, on its way to the device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <semaphore>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/data/sampler.hpp>
#include <mn/loader/batch_budget.hpp>
#include <mn/loader/batch_copier.hpp>
#include <mn/loader/loader_options.hpp>

namespace mn {

struct MadeBatch {
  Batch batch;
  CopyTicket copied;
  BatchBytes bytes;
  std::vector<SampleError> damaged;  // that others replace
};

/// Thread-safe.
class BatchMaker {
 public:
  /// `transforms`: threads that transform at a time. `options` must outlive it.
  BatchMaker(std::shared_ptr<const Dataset> source, const LoaderOptions& options, int transforms);

  /// `raw` gets the samples; it keeps its memory for the next one. Throws what reading and transforming throw.
  [[nodiscard]] MadeBatch make(const SamplerStep& step, RawSamples& raw) const;
  /// From now on nothing is transformed.
  void end() { ends_ = true; }
  /// What to throw where so many samples of an epoch were damaged, `damaged` the last of them.
  [[nodiscard]] DataError too_many(std::int64_t count, const std::vector<SampleError>& damaged) const;

 private:
  /// Reads and transforms; replaces damaged samples by others until none is left.
  [[nodiscard]] std::vector<BatchField> read(const SamplerStep& step, std::vector<std::int64_t>& indices,
                                             RawSamples& raw, std::vector<SampleError>& first_damaged) const;
  /// By as many threads at a time as there are workers.
  [[nodiscard]] Transformed transform(const RawBatch& batch, std::vector<SampleError>& damaged) const;

  std::shared_ptr<const Dataset> source_;
  const LoaderOptions* options_;
  BatchCopier copier_;
  mutable std::counting_semaphore<> transforms_;
  std::atomic<bool> ends_ = false;
};

}  // namespace mn

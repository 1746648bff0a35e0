/// Makes a step's batch: reads, transforms, copies to the device.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/TensorOptions.h>

#include <mn/core/error.hpp>
#include <mn/data/sampler.hpp>
#include <mn/loader/batch.hpp>
#include <mn/loader/batch_budget.hpp>
#include <mn/loader/loader_options.hpp>
#include <mn/loader/transform_team.hpp>

namespace mn {

/// A copy under way: a worker starts it, the user of the batch waits for it.
class CopyTicket {
 public:
  CopyTicket() = default;
  explicit CopyTicket(std::unique_ptr<c10::Event> done) : done_(std::move(done)) {}
  /// Makes the caller's current stream wait for the copy, and keeps the tensors' memory until that stream has passed. A
  /// batch on the CPU needs neither.
  void wait(const std::vector<BatchField>& fields) const;

 private:
  std::unique_ptr<c10::Event> done_;
};

/// Brings batches to a GPU: pinned memory, a stream of their own, no waiting of the host. Thread-safe.
class BatchCopier {
 public:
  explicit BatchCopier(Device device);
  /// Options for a batch's memory: page-locked if the batch goes to a GPU.
  [[nodiscard]] at::TensorOptions memory() const { return at::TensorOptions().pinned_memory(stream_.has_value()); }
  /// Copies all tensors to the device (not if that is the CPU), then calls `finish`, unless it is empty. The host does
  /// not wait for the copy.
  void copy(std::vector<BatchField>& fields, const std::function<void(std::vector<BatchField>&)>& finish,
            CopyTicket& ticket) const;

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;
};

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

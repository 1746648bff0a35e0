/// Makes the batch of a step: reads the samples, transforms them and copies the tensors to the device.
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

/// An asynchronous copy of a batch to a GPU. A worker starts the copy; the user of the batch calls wait().
class CopyTicket {
 public:
  CopyTicket() = default;
  explicit CopyTicket(std::unique_ptr<c10::Event> done) : done_(std::move(done)) {}
  /// Makes the caller's current stream wait for the copy, without blocking the host, and keeps the tensors' memory
  /// until the stream has used them. Does nothing for a batch on the CPU.
  void wait(const std::vector<BatchField>& fields) const;

 private:
  std::unique_ptr<c10::Event> done_;
};

/// Copies batches to a GPU from pinned memory, on a stream of its own, so that the host does not wait. Thread-safe.
class BatchCopier {
 public:
  explicit BatchCopier(Device device);
  /// Options for the memory of a batch's tensors on the host: page-locked if the batch goes to a GPU.
  [[nodiscard]] at::TensorOptions memory() const { return at::TensorOptions().pinned_memory(stream_.has_value()); }
  /// Copies all tensors to the device if the device is a GPU, then calls `finish` unless `finish` is empty. The host
  /// does not wait for the copy; `ticket` can wait for it.
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
  std::vector<SampleError> damaged;  // damaged samples that were replaced by other samples
};

/// Makes the batches of a dataset. Thread-safe.
class BatchMaker {
 public:
  /// At most `threads` threads transform at a time. `options` must outlive this object.
  BatchMaker(std::shared_ptr<const Dataset> source, const LoaderOptions& options, int threads);

  /// Makes the batch of `step`. Reads the samples into `raw`; give `raw` to the next call, because it keeps its memory.
  /// If several threads call make(), the batch with the lowest `order` is transformed first. Throws the errors of
  /// reading and transforming.
  [[nodiscard]] LoadedBatch make(const SamplerStep& step, std::int64_t order, RawSamples& raw) const;
  /// From now on make() throws instead of transforming a batch.
  void end() { ends_ = true; }
  /// The error for more than max_corrupt damaged samples in an epoch: `count` in all; the last of `damaged` is the most
  /// recent.
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

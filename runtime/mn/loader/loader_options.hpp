/// Options of a DataLoader: how it transforms samples, and how many batches it makes ahead.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include <mn/core/buffer.hpp>
#include <mn/data/scattered_dataset.hpp>
#include <mn/data/weighted_draws.hpp>
#include <mn/loader/batch.hpp>

namespace mn {

/// Calls task(0) … task(n − 1), in any order and several at a time. Returns when all calls have returned.
using ForEach = std::function<void(std::int64_t n, const std::function<void(std::int64_t i)>& task)>;
/// A ForEach that runs the tasks one by one on the calling thread.
inline void in_turn(std::int64_t n, const std::function<void(std::int64_t)>& task) {
  for (std::int64_t i = 0; i < n; ++i) task(i);
}

/// The argument of a transform: the raw samples of a batch.
struct RawBatch {
  const RawSamples& samples;  ///< a column for each field
  std::span<const std::int64_t>
      indices;             ///< indices of the samples in the dataset; seed random generators with (seed, epoch, index)
  const SampleSpec& spec;  ///< the fields of the dataset's samples
  std::uint64_t seed;      ///< the loader's seed
  std::int64_t epoch;      ///< counted from 0
  /// How to allocate the result's tensors: in page-locked memory if the loader copies the batch to a GPU.
  at::TensorOptions memory = {};
  /// Calls a task for each sample. Idle workers run some of the tasks. A task must not call for_each.
  ForEach for_each = in_turn;
};

/// The result of a transform: all fields of the minibatch, or only the first field, as a tensor [samples, …]. If it is
/// only the first field, default_field() makes all other fields.
class Transformed {
 public:
  /// The result has only the first field of the minibatch.
  Transformed(at::Tensor first)  // NOLINT: meant to be implicit
      : fields_{{.name = {}, .values = std::move(first)}} {}
  /// The result has all fields of the minibatch. A field without a name gets its name from the dataset's spec.
  Transformed(std::vector<BatchField> all)  // NOLINT: meant to be implicit
      : fields_(std::move(all)), has_all_(true) {}

  /// The fields that the transform has made.
  [[nodiscard]] std::vector<BatchField>& fields() noexcept { return fields_; }
  /// Whether fields() are all fields of the minibatch.
  [[nodiscard]] bool has_all() const noexcept { return has_all_; }
  /// The values of the first field.
  operator at::Tensor() const { return fields_.at(0).values; }  // NOLINT: meant to be implicit

 private:
  std::vector<BatchField> fields_;
  bool has_all_ = false;
};

/// A transform makes tensors on the CPU from the raw samples of a batch. Worker threads call it, several at a time. The
/// result must depend on `batch` alone. A batch may have 0 samples. If a sample cannot be decoded, the transform must
/// append it to `damaged`.
using Transform = std::function<Transformed(const RawBatch& batch, std::vector<SampleError>& damaged)>;

/// The second half of a transform, called after the fields were copied to the loader's device; it may replace or add
/// fields. Worker threads call it. If the device is a GPU, the loader's stream is the current stream. The result must
/// depend on `fields` alone.
using OnDevice = std::function<void(std::vector<BatchField>& fields)>;

/// The default transform of the first field. A fixed field becomes {samples, shape…}. Values of uint8, unless they are
/// classes, become float32 and are divided by 255; all others stay as default_field() makes them.
[[nodiscard]] at::Tensor default_transform(const RawBatch& batch, std::vector<SampleError>& damaged);

/// Makes a tensor of the field at `position`. Values stay as they are, except that classes become int64. A field whose
/// samples vary in length also gets offsets. Throws ArgumentError for an encoded field: only a transform can decode it.
[[nodiscard]] BatchField default_field(const RawBatch& batch, std::size_t position);

/// Makes all fields: a fixed first field by default_transform(), all others by default_field().
[[nodiscard]] Transformed default_fields(const RawBatch& batch, std::vector<SampleError>& damaged);

/// How a DataLoader reads samples, and how many batches it makes ahead.
struct LoaderOptions {
  std::int64_t batchsize = 1;  ///< samples of a minibatch on each rank
  /// True: each epoch has a new order. Default: ScatterOptions::shuffle of the dataset. A loader that does not shuffle
  /// makes no batch of an epoch before next() is called for the epoch's first batch.
  std::optional<bool> shuffle = {};
  std::optional<std::uint64_t> seed = {};  ///< seed of the order and of augmentation; default: ScatterOptions::seed
  /// With a value, samples are drawn by weight, and not shuffled. All ranks must have equal draws; the loader does not
  /// compare them. Cannot be combined with `by_part`, or with a dataset whose root sent samples from its memory.
  std::optional<DrawOptions> draws = {};
  bool drop_last = false;  ///< omits a short last step
  /// Used if drop_last is false. True: the last two steps share the remaining samples evenly. False: a short last step.
  bool even_last = true;
  /// True: each rank reads its own part from beginning to end. This is cheapest, and suits evaluation. The samples of a
  /// step then depend on the number of ranks. Cannot be combined with `shuffle`.
  bool by_part = false;
  /// Number of threads that transform samples; further threads read files. Does not affect the batches. 0: the calling
  /// thread reads and transforms. Default: one less than the cores of this process, at least 1 and at most 16.
  std::optional<int> workers = {};
  /// Number of batches that the loader makes ahead, ready or in work, without the batch that the caller has.
  /// prefetch_bytes may reduce it. Default: 8, or 2 for each worker if that is more.
  std::optional<int> prefetch = {};
  /// Limit, in bytes, for the loader's memory: samples as read, blocks with unread samples (at most three quarters of
  /// the limit), tensors on host and device, and the caller's last batch. If a batch has no room, it is made only when
  /// next() is called for it. Default: 1 GiB, or a third of the process's memory if that is less. The process's memory
  /// is the limit of the machine or the cgroup, divided by the ranks on the node.
  std::optional<std::int64_t> prefetch_bytes = {};
  Transform transform = default_fields;  ///< from raw samples to tensors
  OnDevice on_device = {};               ///< from the transform's tensors to the batch's tensors; default: none
  Device device = {};  ///< device of the batches; copies to a GPU are asynchronous, from pinned memory
  /// How many damaged samples a rank may replace by other samples in an epoch; one more is an error. Every run chooses
  /// the same replacements.
  std::int64_t max_corrupt = 0;
};

}  // namespace mn

/// How a DataLoader transforms samples, and how many batches it makes ahead.
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
#include <mn/data/sub_dataset.hpp>
#include <mn/data/weighted_draws.hpp>
#include <mn/loader/batch.hpp>

namespace mn {

/// Calls task(0) … task(n − 1), in any order and several at a time, and returns when all calls have returned.
using ForEach = std::function<void(std::int64_t n, const std::function<void(std::int64_t i)>& task)>;
/// Runs the tasks one by one on this thread.
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
  /// Options for the result's tensors: page-locked if the loader copies the batch to a GPU, which saves a copy on the
  /// host.
  at::TensorOptions memory = {};
  /// Calls a task for each sample, and lets idle workers take a share of the tasks. Tasks must not call for_each.
  ForEach for_each = in_turn;
};

/// The result of a transform. Either it is all fields of the minibatch, or it is the first field only, as a tensor
/// [samples, …]; then default_field() makes the other fields.
class Transformed {
 public:
  /// The first field.
  Transformed(at::Tensor first)  // NOLINT: meant to be implicit
      : fields_{{.name = {}, .values = std::move(first)}} {}
  /// All fields. A field without a name gets the name that the spec has at the field's position.
  Transformed(std::vector<BatchField> all)  // NOLINT: meant to be implicit
      : fields_(std::move(all)), has_all_(true) {}

  /// The fields of the result.
  [[nodiscard]] std::vector<BatchField>& fields() noexcept { return fields_; }
  /// Whether fields() are all fields of the minibatch.
  [[nodiscard]] bool has_all() const noexcept { return has_all_; }
  /// The values of the first field.
  operator at::Tensor() const { return fields_.at(0).values; }  // NOLINT: meant to be implicit

 private:
  std::vector<BatchField> fields_;
  bool has_all_ = false;
};

/// Makes tensors on the CPU from the raw samples of a batch. Worker threads call the function, several at a time. The
/// result must depend on `batch` alone. A batch may have 0 samples. The function must append samples that can't be
/// decoded to `damaged`.
using Transform = std::function<Transformed(const RawBatch& batch, std::vector<SampleError>& damaged)>;

/// Continues a transform after the fields were copied to the loader's device: may replace or add fields. Worker threads
/// call the function, with the loader's stream current if the device is a GPU. The result must depend on `fields`
/// alone.
using OnDevice = std::function<void(std::vector<BatchField>& fields)>;

/// Transforms the first field. A fixed field becomes {samples, shape…}; uint8 values that are not classes become
/// float32, divided by 255. All other values are as in default_field().
[[nodiscard]] at::Tensor default_transform(const RawBatch& batch, std::vector<SampleError>& damaged);

/// Field `position` as a tensor with unchanged values, except that classes become int64. A variable field also gets
/// offsets. Throws ArgumentError for an encoded field, which needs a transform that decodes.
[[nodiscard]] BatchField default_field(const RawBatch& batch, std::size_t position);

/// All fields: the first by default_transform(), the others by default_field().
[[nodiscard]] Transformed default_fields(const RawBatch& batch, std::vector<SampleError>& damaged);

/// How a DataLoader reads, and how many batches it makes ahead.
struct LoaderOptions {
  std::int64_t batchsize = 1;  ///< samples of a minibatch on each rank
  /// Whether each epoch has a new order; default: ScatterOptions::shuffle of the dataset. Without shuffle, the loader
  /// makes no batch of an epoch before next() is called for the epoch's first batch.
  std::optional<bool> shuffle = {};
  std::optional<std::uint64_t> seed = {};  ///< seed of the order and of augmentation; default: ScatterOptions::seed
  /// Draws samples by weight instead of a shuffle. Can't be combined with `by_part`, or with a dataset whose root sent
  /// samples from its memory.
  std::optional<DrawOptions> draws = {};
  bool drop_last = false;  ///< omits a short last step
  /// Used without drop_last. True: the last two steps share the remaining samples evenly. False: the last step is
  /// short.
  bool even_last = true;
  bool sticky = false;  ///< a rank reads about the same shards in every epoch, so the node's page cache has them
  /// Each rank reads its own part from beginning to end. This is the cheapest order, and suits evaluation. The samples
  /// of a step then depend on the number of ranks. Can't be combined with `shuffle`.
  bool by_part = false;
  /// Number of threads that transform; other threads read files. The number does not change the batches. 0: the calling
  /// thread transforms. Default: one less than the cores of this process, at least 1 and at most 16.
  std::optional<int> workers = {};
  /// Number of batches, ready or in work, in addition to the batch that the caller has. prefetch_bytes may reduce the
  /// number. Default: 8, or 2 for each worker if that is more.
  std::optional<int> prefetch = {};
  /// Limit, in bytes, for the loader's memory: samples as read, blocks with unread samples (at most three quarters of
  /// the limit), tensors on host and device, and the batch that the caller got last. If there is no room for a batch,
  /// it is made when next() is called for it. Default: 1 GiB, or a third of this process's memory if that is less. This
  /// process's memory is the limit of machine or cgroup, divided by the ranks on the node.
  std::optional<std::int64_t> prefetch_bytes = {};
  Transform transform = default_fields;  ///< from raw samples to tensors
  OnDevice on_device = {};               ///< from the transform's tensors to the batch's tensors; default: none
  Device device = {};  ///< device of the batches; copies to a GPU are asynchronous, from pinned memory
  /// Number of damaged samples that a rank may replace in an epoch; one more is an error. The same samples replace them
  /// in every run.
  std::int64_t max_corrupt = 0;
};

}  // namespace mn

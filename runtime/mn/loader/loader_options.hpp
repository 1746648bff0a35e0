/// How a DataLoader transforms samples, and how far ahead it works.
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
#include <mn/loader/batch.hpp>

namespace mn {

/// Calls task(0) … task(n − 1), in any order and several at a time; returns when all have ended.
using ForEach = std::function<void(std::int64_t n, const std::function<void(std::int64_t i)>& task)>;
/// Runs the tasks one by one on this thread.
inline void in_turn(std::int64_t n, const std::function<void(std::int64_t)>& task) {
  for (std::int64_t i = 0; i < n; ++i) task(i);
}

/// The argument of a transform: the raw samples of a batch.
struct RawBatch {
  const RawSamples& samples;  ///< a column for each field
  std::span<const std::int64_t>
      indices;                    ///< indices of the samples in the dataset; with (seed, epoch) the key for randomness
  const SampleSpec& spec;         ///< the fields of the dataset's samples
  std::uint64_t seed;             ///< the loader's seed
  std::int64_t epoch;             ///< counted from 0
  at::TensorOptions memory = {};  ///< for the result: page-locked if it goes to a GPU, which saves a copy
  /// Divides the batch: calls a task for each sample, also on idle workers. Tasks must not call for_each.
  ForEach for_each = in_turn;
};

/// The result of a transform: either the first field as a tensor [samples, …], and default_field() makes the others; or
/// all fields of the minibatch.
class Transformed {
 public:
  /// The first field.
  Transformed(at::Tensor first)  // NOLINT: meant to be implicit
      : fields_{{.name = {}, .values = std::move(first)}} {}
  /// All fields. A field without a name gets the name in the spec at its position.
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

/// Returns tensors on the CPU. Called on worker threads, several at a time, also with no samples at all: the result
/// must depend on its argument alone. Samples that can't be decoded go into `damaged`.
using Transform = std::function<Transformed(const RawBatch& batch, std::vector<SampleError>& damaged)>;

/// Continues a transform on the loader's device, after the fields arrive there: replaces or adds fields. Called on
/// worker threads, on the loader's stream if the device is a GPU; the result must depend on the argument alone.
using OnDevice = std::function<void(std::vector<BatchField>& fields)>;

/// The first field of fixed samples, {samples, shape…}: bytes that are not classes become float32 scaled to [0, 1]; all
/// other values are as in default_field().
[[nodiscard]] at::Tensor default_transform(const RawBatch& batch, std::vector<SampleError>& damaged);

/// Field `position` unchanged, but classes become int64; variable fields have offsets. Throws ArgumentError for encoded
/// fields, which need a transform that decodes.
[[nodiscard]] BatchField default_field(const RawBatch& batch, std::size_t position);

/// All fields: the first by default_transform(), the others by default_field().
[[nodiscard]] Transformed default_fields(const RawBatch& batch, std::vector<SampleError>& damaged);

/// How a DataLoader reads, and how far ahead.
struct LoaderOptions {
  std::int64_t batchsize = 1;  ///< samples of a minibatch on each rank
  /// A new order each epoch; default: the scattered dataset's `shuffle`. Without shuffle the loader makes no batch of
  /// an epoch before the first is asked for.
  std::optional<bool> shuffle = {};
  std::optional<std::uint64_t> seed = {};  ///< seed of the order and of augmentation; default: as scattered
  bool drop_last = false;                  ///< leaves a last, short step out
  /// without drop_last, the last two steps share the remaining samples evenly; false: the last step is short
  bool even_last = true;
  bool sticky = false;  ///< a rank reads about the same shards in every epoch, from its node's page cache
  /// Each rank walks its own part from beginning to end: the cheapest way to read, for evaluation. The samples of a
  /// step then depend on the number of ranks. Not with `shuffle`.
  bool by_part = false;
  /// Threads that transform; other threads wait for files. The number does not affect batches; 0: the calling thread
  /// transforms. Default: the cores of this process but one, 1 to 16.
  std::optional<int> workers = {};
  /// Batches ready or in work ahead of the one in use, as far as prefetch_bytes allows. Default: 8, or 2 for each
  /// worker.
  std::optional<int> prefetch = {};
  /// Limit for the loader's memory: samples as read, blocks with unread samples (at most three quarters of the limit),
  /// tensors on host and device, and the last batch handed out, until the next call. A batch without room is made when
  /// it is asked for. Default: 1 GiB, or a third of this process's memory (by the limits of machine and cgroup, and the
  /// ranks on the node) if that is less.
  std::optional<std::int64_t> prefetch_bytes = {};
  Transform transform = default_fields;  ///< from raw samples to tensors
  OnDevice on_device = {};               ///< from the transform's tensors to the batch's; default: none
  Device device = {};  ///< device of the batches; copies to a GPU are asynchronous, from pinned memory
  /// Damaged samples that a rank may replace in an epoch; one more is an error. The substitutes are deterministic.
  std::int64_t max_corrupt = 0;
};

}  // namespace mn

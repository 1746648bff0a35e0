/// What a DataLoader does with samples, and how far ahead.
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
/// One after another, on this thread.
inline void in_turn(std::int64_t n, const std::function<void(std::int64_t)>& task) {
  for (std::int64_t i = 0; i < n; ++i) task(i);
}

/// What a transform gets: one batch's raw samples.
struct RawBatch {
  const RawSamples& samples;  ///< a column for each field
  std::span<const std::int64_t>
      indices;                    ///< indices of the samples in the dataset; with (seed, epoch) the key for randomness
  const SampleSpec& spec;         ///< what the dataset's samples are
  std::uint64_t seed;             ///< the loader's seed
  std::int64_t epoch;             ///< counted from 0
  at::TensorOptions memory = {};  ///< for the result: page-locked where it travels to a GPU, which saves a copy
  /// Divides the batch: calls a task for each sample, also on workers that are idle. Tasks must not call it.
  ForEach for_each = in_turn;
};

/// What a transform returns: the first field as a tensor [samples, …], with all others by default_field(); or all
/// fields of the minibatch.
class Transformed {
 public:
  /// The first field.
  Transformed(at::Tensor first)  // NOLINT: meant to be implicit
      : fields_{{.name = {}, .values = std::move(first)}} {}
  /// All fields. Those without a name have that of the spec's field at that position.
  Transformed(std::vector<BatchField> all)  // NOLINT: meant to be implicit
      : fields_(std::move(all)), has_all_(true) {}

  /// Those that were given.
  [[nodiscard]] std::vector<BatchField>& fields() noexcept { return fields_; }
  /// Whether no other is to be made.
  [[nodiscard]] bool has_all() const noexcept { return has_all_; }
  /// The values of the first one.
  operator at::Tensor() const { return fields_.at(0).values; }  // NOLINT: meant to be implicit

 private:
  std::vector<BatchField> fields_;
  bool has_all_ = false;
};

/// Returns tensors on the CPU. Called on worker threads, several at a time, also with no samples at all: the result
/// must depend on its argument alone. Samples that can't be decoded go into `damaged`.
using Transform = std::function<Transformed(const RawBatch& batch, std::vector<SampleError>& damaged)>;

/// Continues a transform on the loader's device, once the fields are there: replaces or adds fields. Called on worker
/// threads, on a stream of the loader's where that is a GPU; the result must depend on its argument alone.
using OnDevice = std::function<void(std::vector<BatchField>& fields)>;

/// The first field of fixed samples, {samples, shape…}: bytes become float32 scaled to [0, 1] (unless they are
/// classes), all else is as default_field() makes it.
[[nodiscard]] at::Tensor default_transform(const RawBatch& batch, std::vector<SampleError>& damaged);

/// Field `position` as it is: classes become int64, other values keep their type; variable fields have offsets. Throws
/// ArgumentError for encoded fields, which a transform has to decode.
[[nodiscard]] BatchField default_field(const RawBatch& batch, std::size_t position);

/// All fields: the first one by default_transform(), the others by default_field().
[[nodiscard]] Transformed default_fields(const RawBatch& batch, std::vector<SampleError>& damaged);

/// What a DataLoader reads, and how far ahead.
struct LoaderOptions {
  std::int64_t batchsize = 1;  ///< samples of a minibatch on each rank
  /// A new order each epoch; default: as scattered. Without it nothing is made of an epoch before its first batch is
  /// asked for.
  std::optional<bool> shuffle = {};
  std::optional<std::uint64_t> seed = {};  ///< seed of the order and of augmentation; default: as scattered
  bool drop_last = false;                  ///< leaves a last, short step out
  bool even_last = true;  ///< else the last two steps share what is left evenly, so that none is much shorter than half
  bool sticky = false;    ///< a rank reads about the same shards in every epoch, from its node's page cache
  /// Each rank walks its own part, as scattered, from its beginning to its end: the cheapest way to read, for
  /// evaluation. A step then holds other samples with another number of ranks. Not with `shuffle`.
  bool by_part = false;
  /// Threads that transform; other threads wait for files. Any number gives the same batches; 0: the caller's own.
  /// Default: the cores of this process but one, 1 to 16.
  std::optional<int> workers = {};
  /// Batches ready or in work ahead of the one in use, as far as prefetch_bytes allows. Default: 8, or 2 for each
  /// worker.
  std::optional<int> prefetch = {};
  /// Limit for all that the loader holds: samples as they are read, what was read with them and is not used up (at most
  /// three quarters of the limit), tensors on the host and the device, and the last batch handed out, until the next
  /// one is asked for. A batch without room beside it is made when it is asked for. Default: 1 GiB, or a third of this
  /// process's memory, by the machine's and its cgroup's limit and the ranks on the node.
  std::optional<std::int64_t> prefetch_bytes = {};
  Transform transform = default_fields;  ///< from raw samples to tensors
  OnDevice on_device = {};               ///< from these to what a batch holds; default: the same
  Device device = {};  ///< batches arrive here, copied asynchronously from pinned memory where it is a GPU
  /// Damaged samples of this rank that others replace in an epoch, the same ones in every run, before one is an error.
  std::int64_t max_corrupt = 0;
};

}  // namespace mn

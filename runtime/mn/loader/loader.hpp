/// Batches as tensors, read ahead by worker threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include <mn/data/sub_dataset.hpp>
#include <mn/loader/iterator.hpp>
#include <mn/loader/loader_options.hpp>

namespace mn {

/// Minibatches of a dataset, epoch after epoch; each epoch has every sample exactly once. Shards: step k has equal
/// samples for any number of ranks (GlobalSampler). Parts from a root's memory, or by_part: each rank walks its own
/// part, and Batch::indices count in the part. Use from one thread.
///
///     auto train = mn::scatter_dataset(mn::open_dataset("mnist/train"), comm, {.shuffle = true});
///     mn::DataLoader loader(train, {.batchsize = 20, .device = comm->device()});
///     for (int epoch = 0; epoch < 2; ++epoch) {
///       while (const auto batch = loader.next()) step(batch->data, batch->target);
///     }
class DataLoader final : public Iterator {
 public:
  /// Throws UsageError as Sampler does. No messages are sent.
  DataLoader(std::shared_ptr<const SubDataset> dataset, LoaderOptions options);
  /// For the result of scatter_dataset; without this overload the call would be ambiguous.
  DataLoader(std::shared_ptr<SubDataset> dataset, LoaderOptions options)
      : DataLoader(std::shared_ptr<const SubDataset>(std::move(dataset)), std::move(options)) {}
  /// One process that uses the whole dataset.
  DataLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options);
  /// Joins the worker threads, each after its current batch.
  ~DataLoader() override;

  /// The next batch; no value, once, at the end of each epoch. Throws the errors of reading the batch.
  [[nodiscard]] std::optional<Batch> next() override;

  /// Samples over all ranks, each counted once.
  [[nodiscard]] std::int64_t dataset_size() const noexcept;
  /// Equal on all ranks.
  [[nodiscard]] std::int64_t steps_per_epoch() const override;
  /// Completed epochs; counts an epoch as soon as its last batch is handed out.
  [[nodiscard]] std::int64_t epoch() const override;
  /// epoch() and the fraction of the current epoch handed out.
  [[nodiscard]] double epoch_detail() const override;
  /// Seconds that next() has waited since the start.
  [[nodiscard]] double data_wait_s() const override;
  /// The four causes are all of data_wait_s().
  [[nodiscard]] LoaderStats stats() const override;
  /// Number of ranks that the dataset was scattered to; 1 for other datasets.
  [[nodiscard]] int ranks() const override;
  /// Damaged samples replaced on this rank, in the epoch of the last batch handed out.
  [[nodiscard]] std::int64_t corrupt() const noexcept;

  /// The state for load_state() to continue after the last batch handed out; equal on all ranks.
  [[nodiscard]] nlohmann::json state() const override;
  /// Continues from a state; see Sampler::load_state. Parts from a root's memory, or by_part, resume in mid-epoch only
  /// with the same number of ranks and batch size (DataError otherwise), from the end of an epoch with any.
  void load_state(const nlohmann::json& state) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mn

/// Loads the samples of a dataset as minibatches of tensors. Worker threads read them ahead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include <mn/data/scattered_dataset.hpp>
#include <mn/loader/iterator.hpp>
#include <mn/loader/loader_options.hpp>

namespace mn {

/// Minibatches of a dataset, epoch after epoch. Each epoch has every sample exactly once, unless LoaderOptions::draws
/// is set. If every rank can read the whole dataset (for example shards), step k has the same samples for any number of
/// ranks, as long as batchsize × ranks stays the same (GlobalSampler). If the root sent parts from its memory, or with
/// LoaderOptions::by_part, each rank takes only the samples of its own part. Use a loader from one thread.
///
/// Example (tests/data/header_examples_test.cpp):
///
///   auto train = mn::scatter_dataset(mn::open_dataset("mnist/train"), comm, {.shuffle = true});
///   mn::DataLoader loader(train, {.batchsize = 20, .device = comm->device()});
///   for (int epoch = 0; epoch < 2; ++epoch) {
///     while (const auto batch = loader.next()) step(batch->data, batch->target);
///   }
class DataLoader final : public Iterator {
 public:
  /// Throws a UsageError as Sampler does. Sends no messages.
  DataLoader(std::shared_ptr<const SubDataset> dataset, LoaderOptions options);
  /// Without this overload, a call with the result of scatter_dataset(), which is not const, would be ambiguous.
  DataLoader(std::shared_ptr<SubDataset> dataset, LoaderOptions options)
      : DataLoader(std::shared_ptr<const SubDataset>(std::move(dataset)), std::move(options)) {}
  /// A loader that takes all samples of the dataset on this rank.
  DataLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options);
  /// Waits for the worker threads, which finish their current batches.
  ~DataLoader() override;

  /// Returns the next batch. At the end of each epoch, one call returns no value. Throws the errors of reading.
  [[nodiscard]] std::optional<Batch> next() override;

  /// Number of samples of the whole dataset.
  [[nodiscard]] std::int64_t dataset_size() const noexcept;
  /// Steps of one epoch, equal on all ranks.
  [[nodiscard]] std::int64_t steps_per_epoch() const override;
  /// Samples of an epoch (dataset_size()), and of a full minibatch on one rank (LoaderOptions::batchsize).
  [[nodiscard]] EpochSize epoch_size() const override;
  /// How many epochs are completed. An epoch is completed when its last batch is handed out.
  [[nodiscard]] std::int64_t epoch() const override;
  /// epoch(), plus the fraction of the current epoch that was handed out.
  [[nodiscard]] double epoch_detail() const override;
  /// How many seconds next() has waited since the loader was made.
  [[nodiscard]] double data_wait_s() const override;
  /// Why next() has waited. The sum of the four times is data_wait_s().
  [[nodiscard]] LoaderStats stats() const override;
  /// How many ranks share the dataset: the ranks of scatter_dataset() or share_dataset(); else 1.
  [[nodiscard]] int ranks() const override;
  /// How many damaged samples this rank has replaced in the epoch of the last batch handed out.
  [[nodiscard]] std::int64_t corrupt() const noexcept;

  /// The loader's state after the last batch handed out, equal on all ranks. load_state() continues from it.
  [[nodiscard]] nlohmann::json state() const override;
  /// Continues from a state; see Sampler::load_state(). If each rank takes only the samples of its part, throws
  /// DataError if a state in mid-epoch comes from another number of ranks or batch size. All other states resume with
  /// any number of ranks and any batch size.
  void load_state(const nlohmann::json& state) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mn

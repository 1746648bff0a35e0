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
  /// Takes the result of scatter_dataset(), a pointer to a SubDataset that is not const. Without this overload, the
  /// call with such a pointer would be ambiguous.
  DataLoader(std::shared_ptr<SubDataset> dataset, LoaderOptions options)
      : DataLoader(std::shared_ptr<const SubDataset>(std::move(dataset)), std::move(options)) {}
  /// A loader that takes all samples of the dataset, and shares them with no other rank.
  DataLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options);
  /// Waits for the worker threads; each of them first finishes its current batch.
  ~DataLoader() override;

  /// Returns the next batch. At the end of each epoch, one call returns no value. If a batch could not be read, throws
  /// the error of reading.
  [[nodiscard]] std::optional<Batch> next() override;

  /// Number of samples of the whole dataset.
  [[nodiscard]] std::int64_t dataset_size() const noexcept;
  /// Steps of one epoch, equal on all ranks.
  [[nodiscard]] std::int64_t steps_per_epoch() const override;
  /// The number of samples of an epoch (dataset_size()), and of a full minibatch on one rank
  /// (LoaderOptions::batchsize).
  [[nodiscard]] EpochSize epoch_size() const override;
  /// How many epochs are completed. An epoch is completed as soon as its last batch is handed out.
  [[nodiscard]] std::int64_t epoch() const override;
  /// epoch(), plus the fraction of the current epoch that was handed out.
  [[nodiscard]] double epoch_detail() const override;
  /// How many seconds next() has waited since the loader was made.
  [[nodiscard]] double data_wait_s() const override;
  /// Why next() has waited. The sum of the four times is data_wait_s().
  [[nodiscard]] LoaderStats stats() const override;
  /// How many ranks share the dataset: the ranks of scatter_dataset() or share_dataset(); 1 for all other datasets.
  [[nodiscard]] int ranks() const override;
  /// How many damaged samples this rank has replaced in the current epoch, the epoch of the last batch handed out.
  [[nodiscard]] std::int64_t corrupt() const noexcept;

  /// The loader's state after the last batch handed out, equal on all ranks. load_state() continues from it.
  [[nodiscard]] nlohmann::json state() const override;
  /// Continues from a state; see Sampler::load_state. If each rank takes only the samples of its part, a state from the
  /// middle of an epoch needs the same number of ranks and batch size, and load_state() throws DataError otherwise. A
  /// state from the end of an epoch resumes with any number of ranks and any batch size.
  void load_state(const nlohmann::json& state) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mn

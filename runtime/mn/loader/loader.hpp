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

/// Minibatches of a dataset, epoch after epoch. Each epoch has every sample exactly once, unless LoaderOptions::draws
/// is set. If every rank can read the dataset (for example shards), the samples of step k do not depend on the number
/// of ranks, given equal batchsize × ranks (GlobalSampler). If the root sent parts from its memory, or with
/// LoaderOptions::by_part, each rank takes only the samples of its part. Use a loader from one thread.
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
  /// Throws UsageError as Sampler does. No messages are sent.
  DataLoader(std::shared_ptr<const SubDataset> dataset, LoaderOptions options);
  /// Takes the result of scatter_dataset(). Without this overload the call would be ambiguous.
  DataLoader(std::shared_ptr<SubDataset> dataset, LoaderOptions options)
      : DataLoader(std::shared_ptr<const SubDataset>(std::move(dataset)), std::move(options)) {}
  /// A loader for one process that uses the whole dataset.
  DataLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options);
  /// Joins the worker threads, each after its current batch.
  ~DataLoader() override;

  /// The next batch. At the end of each epoch, one call returns no value. Throws the errors of reading the batch.
  [[nodiscard]] std::optional<Batch> next() override;

  /// Number of samples of the whole dataset.
  [[nodiscard]] std::int64_t dataset_size() const noexcept;
  /// Steps of one epoch, equal on all ranks.
  [[nodiscard]] std::int64_t steps_per_epoch() const override;
  /// dataset_size(), and LoaderOptions::batchsize.
  [[nodiscard]] EpochSize epoch_size() const override;
  /// Completed epochs. An epoch is completed as soon as its last batch is handed out.
  [[nodiscard]] std::int64_t epoch() const override;
  /// epoch(), plus the fraction of the current epoch that was handed out.
  [[nodiscard]] double epoch_detail() const override;
  /// Seconds that next() has waited since the start.
  [[nodiscard]] double data_wait_s() const override;
  /// The causes of the waiting. The sum of the four times is data_wait_s().
  [[nodiscard]] LoaderStats stats() const override;
  /// Number of ranks that the dataset was scattered to; 1 for other datasets.
  [[nodiscard]] int ranks() const override;
  /// Number of damaged samples that this rank replaced in the epoch of the last batch handed out.
  [[nodiscard]] std::int64_t corrupt() const noexcept;

  /// The state from which load_state() continues after the last batch handed out; equal on all ranks.
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

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

/// Steps over a dataset, epoch after epoch. Shards: step k holds the same samples for any number of ranks (Sampler's
/// order). Parts sent from a root's memory, or by_part: each rank walks its own part, and Batch::indices count there.
/// Every sample comes exactly once in an epoch.
/// Use from one thread.
class DataLoader final : public Iterator {
 public:
  /// Throws UsageError as Sampler does. No messages are sent.
  DataLoader(std::shared_ptr<const SubDataset> dataset, LoaderOptions options);
  /// As scatter_dataset returns it; without this overload the other two would be ambiguous.
  DataLoader(std::shared_ptr<SubDataset> dataset, LoaderOptions options)
      : DataLoader(std::shared_ptr<const SubDataset>(std::move(dataset)), std::move(options)) {}
  /// One process that uses the whole dataset.
  DataLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options);
  /// Ends the worker threads, which finish the batch that they are at, and joins them.
  ~DataLoader() override;

  /// The next batch; no value, once, at the end of each epoch. Throws what reading it threw.
  [[nodiscard]] std::optional<Batch> next() override;

  /// Samples over all ranks, each counted once.
  [[nodiscard]] std::int64_t dataset_size() const noexcept;
  /// Equal on all ranks.
  [[nodiscard]] std::int64_t steps_per_epoch() const override;
  /// Finished epochs: one more as soon as an epoch's last batch is handed out.
  [[nodiscard]] std::int64_t epoch() const override;
  /// epoch() and the fraction of the current epoch handed out.
  [[nodiscard]] double epoch_detail() const override;
  /// Seconds that next() waited for data, since the start.
  [[nodiscard]] double data_wait_s() const override;
  /// The four causes are all of data_wait_s().
  [[nodiscard]] LoaderStats stats() const override;
  /// Those that the dataset was scattered to; 1 for a dataset that was not.
  [[nodiscard]] int ranks() const override;
  /// Damaged samples replaced on this rank in the epoch of the batch handed out last.
  [[nodiscard]] std::int64_t corrupt() const noexcept;

  /// What load_state() takes to continue after the last batch handed out; equal on all ranks.
  [[nodiscard]] nlohmann::json state() const override;
  /// Continues from a state; see Sampler::load_state. Parts from a root's memory, or by_part, resume in mid-epoch only
  /// with the same number of ranks and batch size (DataError otherwise), from the end of an epoch with any.
  void load_state(const nlohmann::json& state) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mn

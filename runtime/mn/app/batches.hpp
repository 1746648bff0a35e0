/// Minibatches as --batchsize, --seed and --device want them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <mn/app/setup.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/loader/loader.hpp>
#include <mn/loader/scatter.hpp>
#include <mn/loader/tensor_dataset.hpp>

namespace mn::app {

/// Collective: samples to train on, reshuffled each epoch. They lie in tensors, the same on every rank. `how` may
/// say how an epoch ends (drop_last, even_last); all else is the options'.
[[nodiscard]] std::shared_ptr<Iterator> train_batches(TensorDataset samples, const CommonOptions& common,
                                                      const std::shared_ptr<Communicator>& comm,
                                                      TensorLoaderOptions how = {});
/// Collective: samples to validate, in order; everything else as train_batches().
[[nodiscard]] std::shared_ptr<Iterator> validation_batches(TensorDataset samples, const CommonOptions& common,
                                                           const std::shared_ptr<Communicator>& comm,
                                                           TensorLoaderOptions how = {});

/// Collective: shards to train on, reshuffled each epoch. `name` is their folder, or the name of a dataset, which
/// open_dataset() looks for: "flowers/train" in $MN_DATA, then in data. `how` may add a transform, workers, drop_last,
/// …; batch size and device are the options'. Throws the same DataError or UsageError on every rank if there are no
/// such shards, or fewer samples than ranks.
[[nodiscard]] std::shared_ptr<DataLoader> train_batches(const std::string& name, const CommonOptions& common,
                                                        const std::shared_ptr<Communicator>& comm,
                                                        LoaderOptions how = {});
/// Collective: shards to validate on, each rank its own part in order (LoaderOptions::by_part); everything else
/// as train_batches().
[[nodiscard]] std::shared_ptr<DataLoader> validation_batches(const std::string& name, const CommonOptions& common,
                                                             const std::shared_ptr<Communicator>& comm,
                                                             LoaderOptions how = {});

/// Collective: samples to train on, reshuffled each epoch, from a dataset that every rank has (make_dataset(), a
/// class of one's own). `how` as above. Throws the same error on every rank if the ranks' datasets differ, or have
/// fewer samples than ranks.
[[nodiscard]] std::shared_ptr<DataLoader> train_batches(std::shared_ptr<const Dataset> dataset,
                                                        const CommonOptions& common,
                                                        const std::shared_ptr<Communicator>& comm,
                                                        LoaderOptions how = {});
/// Collective: samples to validate on, in order; everything else as train_batches().
[[nodiscard]] std::shared_ptr<DataLoader> validation_batches(std::shared_ptr<const Dataset> dataset,
                                                             const CommonOptions& common,
                                                             const std::shared_ptr<Communicator>& comm,
                                                             LoaderOptions how = {});

/// This rank's part of a dataset, shuffled or by part, as it was scattered. `how` as above.
[[nodiscard]] std::shared_ptr<DataLoader> batches_of(const std::shared_ptr<SubDataset>& part,
                                                     const CommonOptions& common, const Communicator& comm,
                                                     LoaderOptions how = {});

/// Declares --loaderjob, the number of worker threads; the value in `loaderjob` is its default.
void add_loaderjob(Options& options, std::int64_t& loaderjob);
/// LoaderOptions::workers for a value of --loaderjob; 0 means the default.
[[nodiscard]] inline std::optional<int> loader_workers(std::int64_t loaderjob) {
  return loaderjob > 0 ? std::optional(static_cast<int>(loaderjob)) : std::nullopt;
}

/// Collective: scatter_dataset(), in a random order of --seed if it is for training. Throws UsageError on all ranks
/// alike unless there is a sample for each rank; `what` is what the user calls the dataset.
[[nodiscard]] std::shared_ptr<SubDataset> scatter_samples(const std::string& what,
                                                          const std::shared_ptr<Dataset>& dataset, bool for_training,
                                                          const CommonOptions& common,
                                                          const std::shared_ptr<Communicator>& comm);

}  // namespace mn::app

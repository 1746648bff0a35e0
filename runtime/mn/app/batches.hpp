/// Minibatches by the options --batchsize, --seed, --device and --stage. train_batches() reshuffles each epoch;
/// validation_batches() keep the order of the samples. Both are collective. `how` may add a transform, workers,
/// drop_last, …; batch size, seed and device come from the options.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mn/app/setup.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/loader/loader.hpp>
#include <mn/loader/scatter.hpp>
#include <mn/loader/tensor_dataset.hpp>

namespace mn::app {

/// Minibatches for training, of samples in tensors that are equal on every rank. `how` may set the end of an epoch
/// (drop_last, even_last).
[[nodiscard]] std::shared_ptr<Iterator> train_batches(TensorDataset samples, const CommonOptions& common,
                                                      const std::shared_ptr<Communicator>& comm,
                                                      TensorLoaderOptions how = {});
/// Minibatches for validation, of samples in tensors that are equal on every rank.
[[nodiscard]] std::shared_ptr<Iterator> validation_batches(TensorDataset samples, const CommonOptions& common,
                                                           const std::shared_ptr<Communicator>& comm,
                                                           TensorLoaderOptions how = {});

/// Minibatches for training from shards. open_samples() opens `name`; --balance and the shares of a mixture give each
/// sample its weight. Throws the same DataError or UsageError on every rank if there are no shards, or fewer samples
/// than ranks.
[[nodiscard]] std::shared_ptr<DataLoader> train_batches(const std::string& name, const CommonOptions& common,
                                                        const std::shared_ptr<Communicator>& comm,
                                                        LoaderOptions how = {});
/// Minibatches for validation from shards; each rank reads its own part in order (LoaderOptions::by_part).
[[nodiscard]] std::shared_ptr<DataLoader> validation_batches(const std::string& name, const CommonOptions& common,
                                                             const std::shared_ptr<Communicator>& comm,
                                                             LoaderOptions how = {});

/// Minibatches for training from a dataset that every rank has (make_dataset(), or your own class). Throws the same
/// error on every rank if the ranks' datasets differ, or have fewer samples than ranks.
[[nodiscard]] std::shared_ptr<DataLoader> train_batches(std::shared_ptr<const Dataset> dataset,
                                                        const CommonOptions& common,
                                                        const std::shared_ptr<Communicator>& comm,
                                                        LoaderOptions how = {});
/// Minibatches for validation from a dataset that every rank has.
[[nodiscard]] std::shared_ptr<DataLoader> validation_batches(std::shared_ptr<const Dataset> dataset,
                                                             const CommonOptions& common,
                                                             const std::shared_ptr<Communicator>& comm,
                                                             LoaderOptions how = {});

/// Minibatches of this rank's part of a scattered dataset. If the dataset was scattered for training, they are
/// shuffled, or drawn by draws_of(); otherwise each rank reads its own part in order.
[[nodiscard]] std::shared_ptr<DataLoader> batches_of(const std::shared_ptr<SubDataset>& part,
                                                     const CommonOptions& common, Communicator& comm,
                                                     LoaderOptions how = {});

/// The dataset that the value of an option names. NAME is a folder of shards, or a name that open_dataset() looks up
/// ("flowers/train" in $MN_DATA, then in data). NAME@FILE.txt takes the samples whose numbers are in FILE.txt
/// (read_indices()). "NAME,NAME,…" joins datasets. "NAME:0.7,NAME:0.3" is a mixture, whose training samples are drawn
/// in these shares. Throws UsageError if only some names have a share.
[[nodiscard]] std::shared_ptr<Dataset> open_samples(const std::string& names);
/// The names in such a value, without files and shares.
[[nodiscard]] std::vector<std::string> dataset_names(const std::string& names);
/// Collective: how training draws samples by weight, because of --balance or Dataset::weights(); no value for a
/// shuffle. Throws the same error on every rank if --balance is given and the samples have no classes, or have weights.
[[nodiscard]] std::optional<DrawOptions> draws_of(const SubDataset& part, const CommonOptions& common,
                                                  Communicator& comm);

/// A set of samples for validation. Its values in the log begin with "validation/NAME/main/", or with
/// "validation/main/" if it has no name.
struct ValidationSet {
  std::string name = {};                   ///< letters, digits, '_', '-' and '.', or empty
  std::shared_ptr<Iterator> batches = {};  ///< not null
};
/// Makes the sets that the value of an option names. Each "SET=NAME" is a set named SET; all other names, joined, are
/// the set without a name, which then is the first. `open` makes the minibatches of names for open_samples(). Throws
/// UsageError if two sets have one name.
[[nodiscard]] std::vector<ValidationSet> validation_sets(
    const std::string& value, const std::function<std::shared_ptr<Iterator>(const std::string& names)>& open);

/// Declares --loaderjob, the number of worker threads; the value in `loaderjob` is its default.
void add_loaderjob(Options& options, std::int64_t& loaderjob);
/// LoaderOptions::workers for a value of --loaderjob; 0 means the default.
[[nodiscard]] inline std::optional<int> loader_workers(std::int64_t loaderjob) {
  return loaderjob > 0 ? std::optional(static_cast<int>(loaderjob)) : std::nullopt;
}

/// Collective: scatter_dataset(), for training in a random order by --seed. Throws the same UsageError on every rank
/// unless there is a sample for each rank; `what` names the dataset in the error.
[[nodiscard]] std::shared_ptr<SubDataset> scatter_samples(const std::string& what,
                                                          const std::shared_ptr<Dataset>& dataset, bool for_training,
                                                          const CommonOptions& common,
                                                          const std::shared_ptr<Communicator>& comm);

}  // namespace mn::app

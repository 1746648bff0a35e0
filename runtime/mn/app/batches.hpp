/// Minibatches by the options --batchsize, --seed, --device and --stage. train_batches() shuffles the samples in each
/// epoch; validation_batches() keeps their order. Both are collective. `how` may set further options: transform,
/// workers, drop_last, …
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

/// Minibatches for training from tensors; every rank must have equal samples. `how` may set drop_last and even_last.
[[nodiscard]] std::shared_ptr<Iterator> train_batches(TensorDataset samples, const CommonOptions& common,
                                                      const std::shared_ptr<Communicator>& comm,
                                                      TensorLoaderOptions how = {});
/// Minibatches for validation from tensors; every rank must have equal samples.
[[nodiscard]] std::shared_ptr<Iterator> validation_batches(TensorDataset samples, const CommonOptions& common,
                                                           const std::shared_ptr<Communicator>& comm,
                                                           TensorLoaderOptions how = {});

/// Minibatches for training from shards. open_samples() opens `name`; --balance and the shares of a mixture give each
/// sample its weight. Throws the same DataError or UsageError on every rank if there are no shards, or if there are
/// fewer samples than ranks.
[[nodiscard]] std::shared_ptr<DataLoader> train_batches(const std::string& name, const CommonOptions& common,
                                                        const std::shared_ptr<Communicator>& comm,
                                                        LoaderOptions how = {});
/// Minibatches for validation from shards; each rank reads its own part in order (LoaderOptions::by_part).
[[nodiscard]] std::shared_ptr<DataLoader> validation_batches(const std::string& name, const CommonOptions& common,
                                                             const std::shared_ptr<Communicator>& comm,
                                                             LoaderOptions how = {});

/// Minibatches for training from a dataset that every rank has (make_dataset(), or your own class). Throws the same
/// error on every rank if the ranks' datasets differ, or if there are fewer samples than ranks.
[[nodiscard]] std::shared_ptr<DataLoader> train_batches(std::shared_ptr<const Dataset> dataset,
                                                        const CommonOptions& common,
                                                        const std::shared_ptr<Communicator>& comm,
                                                        LoaderOptions how = {});
/// Minibatches for validation from a dataset that every rank has.
[[nodiscard]] std::shared_ptr<DataLoader> validation_batches(std::shared_ptr<const Dataset> dataset,
                                                             const CommonOptions& common,
                                                             const std::shared_ptr<Communicator>& comm,
                                                             LoaderOptions how = {});

/// Minibatches of this rank's part of a scattered dataset. If the dataset was scattered with `shuffle`, samples are
/// shuffled, or drawn as draws_of() says. Otherwise each rank reads its own part in order.
[[nodiscard]] std::shared_ptr<DataLoader> batches_of(const std::shared_ptr<SubDataset>& part,
                                                     const CommonOptions& common, Communicator& comm,
                                                     LoaderOptions how = {});

/// Opens the dataset that the value of an option names. NAME is a folder of shards, or a name that open_dataset() looks
/// up ("flowers/train" in $MN_DATA, then in data). NAME@FILE.txt takes the samples whose numbers are in FILE.txt
/// (read_indices()). "NAME,NAME,…" joins datasets. "NAME:0.7,NAME:0.3" is a mixture: training draws samples from the
/// datasets in these shares. Throws UsageError if only some names have a share.
[[nodiscard]] std::shared_ptr<Dataset> open_samples(const std::string& names);
/// The names of datasets in a value for open_samples(), without files and shares.
[[nodiscard]] std::vector<std::string> dataset_names(const std::string& names);
/// Returns how training draws samples, by the weights of --balance or Dataset::weights(). Returns no value if neither
/// gives weights; then training shuffles. Collective over `comm`. Throws the same error on every rank if --balance is
/// given and the samples have no classes, or the dataset has weights.
[[nodiscard]] std::optional<DrawOptions> draws_of(const SubDataset& part, const CommonOptions& common,
                                                  Communicator& comm);

/// A set of samples for validation. Its values in the log begin with "validation/NAME/main/", or with
/// "validation/main/" if it has no name.
struct ValidationSet {
  std::string name = {};                   ///< letters, digits, '_', '-' and '.', or empty
  std::shared_ptr<Iterator> batches = {};  ///< not null
};
/// Makes the validation sets that the value of an option names. Each "SET=NAME" is a set called SET. All entries
/// without "SET=" are joined to one set without a name, which comes first. `open` makes the minibatches of a value for
/// open_samples(). Throws UsageError if two sets have the same name.
[[nodiscard]] std::vector<ValidationSet> validation_sets(
    const std::string& value, const std::function<std::shared_ptr<Iterator>(const std::string& names)>& open);

/// Declares the option --loaderjob, the number of worker threads. The value in `loaderjob` is the default.
void add_loaderjob(Options& options, std::int64_t& loaderjob);
/// LoaderOptions::workers for a value of --loaderjob; 0 means the default.
[[nodiscard]] inline std::optional<int> loader_workers(std::int64_t loaderjob) {
  return loaderjob > 0 ? std::optional(static_cast<int>(loaderjob)) : std::nullopt;
}

/// Divides a dataset by scatter_dataset(); for training, in a random order with the seed of --seed. Collective over
/// `comm`. If there are fewer samples than ranks, or a dataset for validation is a mixture with shares, throws the same
/// UsageError on every rank; the error calls the dataset `what`.
[[nodiscard]] std::shared_ptr<SubDataset> scatter_samples(const std::string& what,
                                                          const std::shared_ptr<Dataset>& dataset, bool for_training,
                                                          const CommonOptions& common,
                                                          const std::shared_ptr<Communicator>& comm);

}  // namespace mn::app

/// Makes the minibatches of a job, as the options --batchsize, --seed, --device and --stage say. train_batches()
/// shuffles the samples in each epoch; validation_batches() keeps their order. Both functions are collective. The
/// parameter `how` may set further options of the loader, for instance transform, workers and drop_last.
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

/// Advice that follows in an error message if samples have no classes.
inline constexpr const char* kClassFieldHint =
    "; in indexed HDF5 files, `mnshard index --class-field NAME` finds the classes of a field";

/// Makes minibatches for training from tensors. Either every rank passes equal samples, or only rank 0 passes samples.
/// `how` may set drop_last and even_last.
[[nodiscard]] std::shared_ptr<Iterator> train_batches(TensorDataset samples, const CommonOptions& common,
                                                      const std::shared_ptr<Communicator>& comm,
                                                      TensorLoaderOptions how = {});
/// Makes minibatches for validation from tensors, as train_batches() does.
[[nodiscard]] std::shared_ptr<Iterator> validation_batches(TensorDataset samples, const CommonOptions& common,
                                                           const std::shared_ptr<Communicator>& comm,
                                                           TensorLoaderOptions how = {});

/// Makes minibatches for training from shards; open_samples(name) opens the shards. If --balance is given, or if `name`
/// is a mixture with shares, these decide how often each sample is drawn. Throws an equal DataError or UsageError on
/// every rank if there are no shards, or if there are fewer samples than ranks.
[[nodiscard]] std::shared_ptr<DataLoader> train_batches(const std::string& name, const CommonOptions& common,
                                                        const std::shared_ptr<Communicator>& comm,
                                                        LoaderOptions how = {});
/// Makes minibatches for validation from shards. The samples stay in the stored order (LoaderOptions::by_part).
[[nodiscard]] std::shared_ptr<DataLoader> validation_batches(const std::string& name, const CommonOptions& common,
                                                             const std::shared_ptr<Communicator>& comm,
                                                             LoaderOptions how = {});

/// Makes minibatches for training from a dataset that every rank has. make_dataset() makes such a dataset; it may also
/// be an object of your own class. Throws an equal error on every rank if the ranks' datasets differ, or if there are
/// fewer samples than ranks.
[[nodiscard]] std::shared_ptr<DataLoader> train_batches(std::shared_ptr<const Dataset> dataset,
                                                        const CommonOptions& common,
                                                        const std::shared_ptr<Communicator>& comm,
                                                        LoaderOptions how = {});
/// Makes minibatches for validation from a dataset that every rank has.
[[nodiscard]] std::shared_ptr<DataLoader> validation_batches(std::shared_ptr<const Dataset> dataset,
                                                             const CommonOptions& common,
                                                             const std::shared_ptr<Communicator>& comm,
                                                             LoaderOptions how = {});

/// Makes minibatches of this rank's part of a scattered dataset. If the dataset was scattered with `shuffle`, the
/// loader shuffles the samples, or draws them if draws_of() returns a value. Otherwise each rank reads its own part in
/// order.
[[nodiscard]] std::shared_ptr<DataLoader> batches_of(const std::shared_ptr<SubDataset>& part,
                                                     const CommonOptions& common, Communicator& comm,
                                                     LoaderOptions how = {});

/// Opens the dataset that `names` describes. "NAME" is a folder of shards, or a name that open_dataset() looks up
/// ("flowers/train" in $MN_DATA, then in data). "NAME@FILE.txt" takes only the samples whose numbers are in FILE.txt
/// (read_indices()). "NAME,NAME,…" joins several datasets. "NAME:0.7,NAME:0.3" is a mixture: training draws these
/// shares of the samples from each dataset. Throws UsageError if only some of the names have a share.
[[nodiscard]] std::shared_ptr<Dataset> open_samples(const std::string& names);
/// Returns the names of the datasets in `names`, a text in the form of open_samples(). The result has neither the files
/// nor the shares.
[[nodiscard]] std::vector<std::string> dataset_names(const std::string& names);
/// Returns how training draws samples: by weights from --balance or from Dataset::weights(). No value if neither gives
/// weights; training then shuffles the samples. Collective over `comm`. With --balance, throws an equal error on every
/// rank if the samples have no classes, or if the dataset has weights of its own.
[[nodiscard]] std::optional<DrawOptions> draws_of(const SubDataset& part, const CommonOptions& common,
                                                  Communicator& comm);

/// A set of samples for validation. The log has the set's values as "validation/NAME/main/…", or as "validation/main/…"
/// if the set has no name.
struct ValidationSet {
  std::string name = {};                   ///< letters, digits, '_', '-' and '.', or empty
  std::shared_ptr<Iterator> batches = {};  ///< not null
};
/// Makes the validation sets that the text `value` describes. Each entry "SET=NAME" makes a set called SET from the
/// dataset NAME. All entries without "SET=" together make one set without a name, which comes first in the result. For
/// each set, `open` gets the set's datasets, in the form of open_samples(), and returns their minibatches. Throws
/// UsageError if two sets have equal names.
[[nodiscard]] std::vector<ValidationSet> validation_sets(
    const std::string& value, const std::function<std::shared_ptr<Iterator>(const std::string& names)>& open);

/// Declares the option --loaderjob, the number of worker threads. `loaderjob` holds the default now, and the parsed
/// value later.
void add_loaderjob(Options& options, std::int64_t& loaderjob);
/// Converts the value of --loaderjob to LoaderOptions::workers. 0 becomes no value, so the loader uses its default.
[[nodiscard]] inline std::optional<int> loader_workers(std::int64_t loaderjob) {
  return loaderjob > 0 ? std::optional(static_cast<int>(loaderjob)) : std::nullopt;
}

/// Collective over `comm`: divides a dataset among the ranks by scatter_dataset(). If `for_training`, the samples are
/// in a random order that --seed decides. Throws an equal UsageError on every rank if there are fewer samples than
/// ranks, or if a dataset for validation is a mixture with shares. `what` is the name of the dataset in the error
/// message.
[[nodiscard]] std::shared_ptr<SubDataset> scatter_samples(const std::string& what,
                                                          const std::shared_ptr<Dataset>& dataset, bool for_training,
                                                          const CommonOptions& common,
                                                          const std::shared_ptr<Communicator>& comm);

}  // namespace mn::app

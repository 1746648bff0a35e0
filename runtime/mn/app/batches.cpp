#include <mn/app/batches.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <span>
#include <utility>

#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/data/joined_dataset.hpp>
#include <mn/data/subset.hpp>
#include <mn/loader/class_values.hpp>

namespace mn::app {
namespace {

/// Each class is drawn equally often. Only rank 0's samples are read, because other ranks may have none.
DrawOptions balanced_draws(const TensorDataset& samples, Communicator& comm) {
  nlohmann::json classes;
  const auto read = [&] {
    const bool has_classes = samples.fields().size() > 1 && samples.fields()[1].dim() == 1 &&
                             at::isIntegralType(samples.fields()[1].scalar_type(), false);
    if (!has_classes) throw UsageError("--balance needs targets that are classes: one integer for each sample");
    const at::Tensor values = samples.fields()[1].to(at::kLong).contiguous();
    classes = std::span(values.const_data_ptr<std::int64_t>(), values.numel());
  };
  on_root<UsageError>(comm, read);
  return {.weights = balanced_weights(whole_numbers<std::int64_t>(comm.bcast_obj(classes)))};
}

/// One dataset among those that an option names. Its text is NAME or NAME@FILE.txt; ":SHARE" may follow.
struct NamedDataset {
  std::string name;
  std::string subset = {};           ///< file with the numbers of samples; empty: all samples
  std::optional<double> share = {};  ///< share in a mixture
};

NamedDataset named_dataset(std::string text) {
  NamedDataset named;
  const std::size_t colon = text.rfind(':');
  if (colon != std::string::npos) {
    const auto share = parse_number<double>(std::string_view(text).substr(colon + 1));
    if (share && *share >= 0 && std::isfinite(*share)) {
      named.share = share;
      text.resize(colon);
    }
  }
  const std::size_t at = text.rfind('@');
  // A folder's name may contain an "@", too, so the file of samples must end with ".txt".
  if (at != std::string::npos && text.ends_with(".txt")) {
    named.subset = text.substr(at + 1);
    text.resize(at);
  }
  named.name = std::move(text);
  return named;
}

std::vector<NamedDataset> named_datasets(const std::string& names) {
  std::vector<NamedDataset> all;
  for (const std::string_view each : split(names, ',')) all.push_back(named_dataset(std::string(each)));
  if (all.size() == 1 && all.front().share) return {{.name = names}};  // a colon in a single name belongs to the name
  return all;
}

std::shared_ptr<Dataset> open_named(const NamedDataset& named) {
  auto dataset = open_dataset(named.name);
  if (named.subset.empty()) return dataset;
  return choose_subset(std::move(dataset),
                       [file = named.subset](const Dataset& all) { return read_indices(file, all.size()); });
}

std::shared_ptr<Iterator> load_tensors(TensorDataset samples, bool for_training, const CommonOptions& common,
                                       const std::shared_ptr<Communicator>& comm, TensorLoaderOptions how) {
  how.batchsize = common.batchsize;
  how.shuffle = for_training;
  how.seed = static_cast<std::uint64_t>(common.seed);
  if (for_training && common.balance) how.draws = balanced_draws(samples, *comm);
  return std::make_shared<TensorLoader>(std::move(samples), comm, how);
}

std::shared_ptr<DataLoader> load_shared(std::shared_ptr<const Dataset> dataset, bool for_training,
                                        const CommonOptions& common, const std::shared_ptr<Communicator>& comm,
                                        LoaderOptions how) {
  const auto part = share_dataset(std::move(dataset), comm,
                                  {.shuffle = for_training, .seed = static_cast<std::uint64_t>(common.seed)});
  return batches_of(part, common, *comm, std::move(how));
}

}  // namespace

std::shared_ptr<Iterator> train_batches(TensorDataset samples, const CommonOptions& common,
                                        const std::shared_ptr<Communicator>& comm, TensorLoaderOptions how) {
  return load_tensors(std::move(samples), true, common, comm, how);
}

std::shared_ptr<Iterator> validation_batches(TensorDataset samples, const CommonOptions& common,
                                             const std::shared_ptr<Communicator>& comm, TensorLoaderOptions how) {
  return load_tensors(std::move(samples), false, common, comm, how);
}

std::shared_ptr<DataLoader> train_batches(const std::string& name, const CommonOptions& common,
                                          const std::shared_ptr<Communicator>& comm, LoaderOptions how) {
  return batches_of(scatter_samples(name, open_samples(name), true, common, comm), common, *comm, std::move(how));
}

std::shared_ptr<DataLoader> validation_batches(const std::string& name, const CommonOptions& common,
                                               const std::shared_ptr<Communicator>& comm, LoaderOptions how) {
  return batches_of(scatter_samples(name, open_samples(name), false, common, comm), common, *comm, std::move(how));
}

std::shared_ptr<DataLoader> train_batches(std::shared_ptr<const Dataset> dataset, const CommonOptions& common,
                                          const std::shared_ptr<Communicator>& comm, LoaderOptions how) {
  return load_shared(std::move(dataset), true, common, comm, std::move(how));
}

std::shared_ptr<DataLoader> validation_batches(std::shared_ptr<const Dataset> dataset, const CommonOptions& common,
                                               const std::shared_ptr<Communicator>& comm, LoaderOptions how) {
  return load_shared(std::move(dataset), false, common, comm, std::move(how));
}

std::shared_ptr<DataLoader> batches_of(const std::shared_ptr<SubDataset>& part, const CommonOptions& common,
                                       Communicator& comm, LoaderOptions how) {
  how.batchsize = common.batchsize;
  how.device = comm.device();
  // In the stored order of the whole dataset, every rank would read every shard; an evaluation needs no such order.
  how.by_part = how.by_part || !how.shuffle.value_or(part->options().shuffle);
  if (!how.by_part && !how.draws) how.draws = draws_of(*part, common, comm);
  return std::make_shared<DataLoader>(part, std::move(how));
}

std::vector<std::string> dataset_names(const std::string& names) {
  std::vector<std::string> found;
  for (const NamedDataset& each : named_datasets(names)) found.push_back(each.name);
  return found;
}

std::shared_ptr<Dataset> open_samples(const std::string& names) {
  const std::vector<NamedDataset> named = named_datasets(names);
  if (named.size() == 1) return open_named(named.front());
  std::vector<std::shared_ptr<Dataset>> datasets;
  std::vector<double> shares;
  for (const NamedDataset& each : named) {
    datasets.push_back(open_named(each));
    if (each.share) shares.push_back(*each.share);
  }
  if (!shares.empty() && shares.size() != named.size()) {
    throw UsageError(names + ": give each dataset of a mixture a share (NAME:SHARE), or none of them");
  }
  const bool draws = std::ranges::any_of(shares, [](double share) { return share > 0; });
  if (!shares.empty() && !draws) {
    throw UsageError(names + ": a mixture whose shares are all 0 has no sample to draw: give a share above 0, as in " +
                     "--train " + named.front().name + ":0.7," + named.back().name + ":0.3");
  }
  return std::make_shared<JoinedDataset>(std::move(datasets), std::move(shares));
}

std::optional<DrawOptions> draws_of(const SubDataset& part, const CommonOptions& common, Communicator& comm) {
  DrawOptions draws;
  if (part.shared()) draws.weights = part.shared()->weights();
  if (!common.balance) return draws.weights.empty() ? std::nullopt : std::optional(std::move(draws));
  if (!draws.weights.empty()) {
    throw UsageError("--balance and the weights of the dataset (a mixture) both say how samples are drawn: choose one");
  }
  draws.weights = balanced_weights(read_classes(part, comm));
  return draws;
}

std::vector<ValidationSet> validation_sets(
    const std::string& value, const std::function<std::shared_ptr<Iterator>(const std::string& names)>& open) {
  std::vector<std::pair<std::string, std::string>> named = {{"", ""}};  // pairs (set, datasets of the set)
  for (const std::string_view each : split(value, ',')) {
    const std::string_view set = each.substr(0, each.find('='));
    const bool is_named = !set.empty() && set.size() < each.size() && std::ranges::all_of(set, [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
    });
    if (!is_named) {
      named.front().second += (named.front().second.empty() ? "" : ",") + std::string(each);
      continue;
    }
    if (std::ranges::any_of(named, [&](const auto& other) { return other.first == set; })) {
      throw UsageError(value + ": two validation sets have the name " + std::string(set));
    }
    named.emplace_back(set, each.substr(set.size() + 1));
  }
  if (named.front().second.empty()) named.erase(named.begin());
  std::vector<ValidationSet> sets;
  for (const auto& [set, names] : named) sets.push_back({set, open(names)});
  return sets;
}

void add_loaderjob(Options& options, std::int64_t& loaderjob) {
  options.add("loaderjob", loaderjob, "threads of each rank that decode; 0: one less than its cores, at most 16", 0,
              1024);
}

std::shared_ptr<SubDataset> scatter_samples(const std::string& what, const std::shared_ptr<Dataset>& dataset,
                                            bool for_training, const CommonOptions& common,
                                            const std::shared_ptr<Communicator>& comm) {
  auto part = scatter_dataset(
      dataset, comm,
      {.shuffle = for_training,
       .seed = static_cast<std::uint64_t>(common.seed),
       .stage = {
           .folder = common.stage, .bytes = common.stage_budget << 30, .bytes_per_second = common.stage_rate << 20}});
  if (!for_training && part->shared() && !part->shared()->weights().empty()) {
    throw UsageError(what + " has shares (NAME:SHARE), which only training uses: a validation reads each sample once");
  }
  if (part->global_size() == 0) throw UsageError(what + " holds no samples");
  if (part->global_size() >= part->ranks()) return part;
  throw UsageError(what + " holds " + std::to_string(part->global_size()) + " samples, so there are more ranks (" +
                   std::to_string(part->ranks()) + ") than samples");
}

}  // namespace mn::app

#include <mn/app/batches.hpp>

#include <charconv>
#include <cmath>
#include <span>
#include <utility>

#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/data/joined_dataset.hpp>
#include <mn/loader/class_values.hpp>

namespace mn::app {
namespace {

/// Draws that balance the classes of rank 0's samples; other ranks may have none.
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

/// NAME or NAME:SHARE.
std::pair<std::string, std::optional<double>> split_share(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const char* end = text.data() + text.size();
  double share = 0;
  if (colon == std::string::npos) return {text, {}};
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, share);
  if (error != std::errc() || stop != end || !(share >= 0) || std::isinf(share)) return {text, {}};
  return {text.substr(0, colon), share};
}

/// A list of names may have shares; a name alone has none.
std::vector<std::pair<std::string, std::optional<double>>> named_shares(const std::string& names) {
  if (names.find(',') == std::string::npos) return {{names, {}}};
  std::vector<std::pair<std::string, std::optional<double>>> parts;
  for (const std::string_view each : split(names, ',')) parts.push_back(split_share(std::string(each)));
  return parts;
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
  // Each rank reads its own part: in stored order, each rank would have to go from shard to shard, and evaluation needs
  // no common order.
  how.by_part = how.by_part || !how.shuffle.value_or(part->options().shuffle);
  if (!how.by_part && !how.draws) how.draws = draws_of(*part, common, comm);
  return std::make_shared<DataLoader>(part, std::move(how));
}

std::vector<std::string> dataset_names(const std::string& names) {
  std::vector<std::string> found;
  for (auto& [name, share] : named_shares(names)) found.push_back(std::move(name));
  return found;
}

std::shared_ptr<Dataset> open_samples(const std::string& names) {
  const auto parts = named_shares(names);
  if (parts.size() == 1) return open_dataset(parts.front().first);
  std::vector<std::shared_ptr<Dataset>> datasets;
  std::vector<double> shares;
  for (const auto& [name, share] : parts) {
    datasets.push_back(open_dataset(name));
    if (share) shares.push_back(*share);
  }
  if (!shares.empty() && shares.size() != parts.size()) {
    throw UsageError(names + ": give each dataset of a mixture a share (NAME:SHARE), or none of them");
  }
  return std::make_shared<JoinedDataset>(std::move(datasets), std::move(shares));
}

std::optional<DrawOptions> draws_of(const SubDataset& part, const CommonOptions& common, Communicator& comm) {
  const auto* joined = dynamic_cast<const JoinedDataset*>(part.shared().get());
  DrawOptions draws;
  if (joined != nullptr) draws.weights = joined->weights();
  if (!common.balance) return draws.weights.empty() ? std::nullopt : std::optional(draws);
  if (!draws.weights.empty()) throw UsageError("--balance and a mixture both say how samples are drawn: choose one");
  draws.weights = balanced_weights(read_classes(part, comm));
  return draws;
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
  if (part->global_size() == 0) throw UsageError(what + " holds no samples");
  if (part->global_size() >= part->ranks()) return part;
  throw UsageError(what + " holds " + std::to_string(part->global_size()) + " samples, so there are more ranks (" +
                   std::to_string(part->ranks()) + ") than samples");
}

}  // namespace mn::app

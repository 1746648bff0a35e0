#include <mn/app/batches.hpp>

#include <utility>

#include <mn/core/error.hpp>

namespace mn::app {
namespace {

std::shared_ptr<Iterator> load_tensors(TensorDataset samples, bool for_training, const CommonOptions& common,
                                       const std::shared_ptr<Communicator>& comm, TensorLoaderOptions how) {
  how.batchsize = common.batchsize;
  how.shuffle = for_training;
  how.seed = static_cast<std::uint64_t>(common.seed);
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
  return batches_of(scatter_samples(name, open_dataset(name), true, common, comm), common, *comm, std::move(how));
}

std::shared_ptr<DataLoader> validation_batches(const std::string& name, const CommonOptions& common,
                                               const std::shared_ptr<Communicator>& comm, LoaderOptions how) {
  return batches_of(scatter_samples(name, open_dataset(name), false, common, comm), common, *comm, std::move(how));
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
                                       const Communicator& comm, LoaderOptions how) {
  how.batchsize = common.batchsize;
  how.device = comm.device();
  // Each rank reads its own part: in stored order, each rank would have to go from shard to shard, and evaluation needs
  // no common order.
  how.by_part = how.by_part || !how.shuffle.value_or(part->options().shuffle);
  return std::make_shared<DataLoader>(part, std::move(how));
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

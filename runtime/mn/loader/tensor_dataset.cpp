// For each step, index_select() picks the rows of the samples that the sampler names. Only the constructor sends
// messages: it compares the ranks' samples by their hash, or broadcasts rank 0's samples.
#include <mn/loader/tensor_dataset.hpp>

#include <cstddef>
#include <span>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <mn/comm/create_communicator.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/data/sampler.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

/// The dtypes and shapes of the fields, so that a rank can allocate tensors for rank 0's samples.
nlohmann::json forms_of(const TensorDataset& dataset) {
  nlohmann::json forms = nlohmann::json::array();
  for (const at::Tensor& field : dataset.fields()) {
    forms.push_back({{"dtype", static_cast<int>(field.scalar_type())}, {"shape", field.sizes().vec()}});
  }
  return forms;
}

TensorDataset broadcast_samples(const TensorDataset& dataset, Communicator& comm) {
  const nlohmann::json forms = comm.bcast_obj(forms_of(dataset));
  std::vector<std::string> names = comm.bcast_obj(nlohmann::json(dataset.names()));
  std::vector<at::Tensor> fields = dataset.fields();
  if (comm.rank() != 0) {
    for (const auto& form : forms) {
      const auto dtype = static_cast<at::ScalarType>(whole_number<int>(form.at("dtype")));
      fields.push_back(at::empty(whole_numbers<std::int64_t>(form.at("shape")), dtype));
    }
  }
  for (const at::Tensor& field : fields) {
    comm.bcast(BufferView(field.data_ptr(), field.nbytes(), DType::kUInt8));
  }
  return TensorDataset(std::move(fields), std::move(names));
}

/// Collective. Returns samples that are equal on all ranks: the given samples if every rank has them, or rank 0's
/// samples if only rank 0 has some. Throws ArgumentError on every rank if the given samples differ.
TensorDataset agreed(TensorDataset dataset, Communicator& comm) {
  std::int64_t have[] = {dataset.size() > 0 ? 1 : 0, comm.rank() == 0 || dataset.size() == 0 ? 1 : 0};
  comm.allreduce(have, ReduceOp::kMin);
  if (have[0] == 0 && have[1] != 0) return broadcast_samples(dataset, comm);
  if (have[0] != 0 && same_on_all_ranks(dataset.fingerprint(), comm)) return dataset;
  throw ArgumentError(
      "the ranks gave a TensorLoader different samples: give the same ones on every rank (with the same seed before "
      "they are drawn), or none on all but rank 0",
      true);
}

/// The options that determine which samples a rank gets, with a hash of the weights.
nlohmann::json options_of(const TensorLoaderOptions& options) {
  nlohmann::json all = {{"batchsize", options.batchsize},
                        {"shuffle", options.shuffle},
                        {"seed", options.seed},
                        {"drop_last", options.drop_last},
                        {"even_last", options.even_last}};
  if (!options.draws) return all;
  all["draws.replacement"] = options.draws->replacement;
  all["draws.samples"] = options.draws->samples;
  all["the hash of draws.weights"] = to_hex(hash64(std::as_bytes(std::span(options.draws->weights))));
  return all;
}

}  // namespace

TensorDataset::TensorDataset(std::vector<at::Tensor> fields, std::vector<std::string> names)
    : fields_(std::move(fields)), names_(std::move(names)) {
  if (fields_.empty()) throw ArgumentError("a TensorDataset needs a tensor at least");
  if (names_.size() > fields_.size()) throw ArgumentError("a TensorDataset got more names than tensors");
  for (std::size_t i = names_.size(); i < fields_.size(); ++i) {
    names_.push_back(i == 0 ? "data" : i == 1 ? "target" : std::to_string(i));
  }
  for (at::Tensor& field : fields_) {
    if (!field.defined() || field.dim() == 0) {
      throw ArgumentError("a field of a TensorDataset must have a first dimension, which counts samples");
    }
    if (field.size(0) != fields_.front().size(0)) {
      throw ArgumentError("the fields of a TensorDataset must count the same samples, but one has " +
                          std::to_string(fields_.front().size(0)) + " and another " + std::to_string(field.size(0)));
    }
    field = field.detach().to(at::kCPU).contiguous();
  }
}

std::uint64_t TensorDataset::fingerprint() const {
  std::uint64_t hash = hash64(forms_of(*this).dump());
  for (const at::Tensor& field : fields_) {
    hash = hash64(std::span(static_cast<const std::byte*>(field.const_data_ptr()), field.nbytes()), hash);
  }
  return hash;
}

struct TensorLoader::Impl {
  TensorDataset dataset;
  std::unique_ptr<Sampler> sampler;
  c10::Device device;
  int ranks;
  std::int64_t batchsize;
  EpochPosition position = {};

  /// Returns the rows `indices` of a field on the device. Copies to a GPU from page-locked memory, without waiting.
  at::Tensor select(const at::Tensor& field, const at::Tensor& indices) const {
    if (device.is_cpu()) return field.index_select(0, indices);
    std::vector<std::int64_t> sizes = field.sizes().vec();
    sizes[0] = indices.numel();
    at::Tensor part = at::empty(sizes, field.options().pinned_memory(true));
    at::index_select_out(part, field, 0, indices);
    return part.to(device, /*non_blocking=*/true);
  }
};

TensorLoader::TensorLoader(TensorDataset dataset, const std::shared_ptr<Communicator>& comm,
                           const TensorLoaderOptions& options) {
  prove_equal(options_of(options), "the options of a TensorLoader", *comm);
  TensorDataset samples = agreed(std::move(dataset), *comm);
  const SamplerOptions sampling{.batchsize = options.batchsize,
                                .rank = comm->rank(),
                                .ranks = comm->size(),
                                .seed = options.seed,
                                .drop_last = options.drop_last,
                                .even_last = options.even_last,
                                .order = {.shuffle = options.shuffle}};
  const std::int64_t size = samples.size();
  const std::uint64_t fingerprint = samples.fingerprint();
  std::unique_ptr<Sampler> sampler;
  if (options.draws) {
    sampler = std::make_unique<DrawSampler>(size, fingerprint, *options.draws, sampling);
  } else {
    sampler = std::make_unique<GlobalSampler>(size, fingerprint, sampling);
  }
  impl_.reset(new Impl{std::move(samples), std::move(sampler), comm->device(), comm->size(), options.batchsize});
}

TensorLoader::~TensorLoader() = default;

std::optional<Batch> TensorLoader::next() {
  const auto step = impl_->sampler->next();
  if (!step) return std::nullopt;
  impl_->position.pass(*step);
  Batch batch;
  batch.samples = std::ssize(step->indices);
  const at::Tensor indices = at::tensor(step->indices, at::kLong);
  for (std::size_t i = 0; i < impl_->dataset.fields().size(); ++i) {
    at::Tensor part = impl_->select(impl_->dataset.fields()[i], indices);
    if (i == 0) batch.data = part;
    if (i == 1) batch.target = part;
    batch.fields.push_back({.name = impl_->dataset.names()[i], .values = std::move(part)});
  }
  batch.indices = step->indices;
  return batch;
}

std::int64_t TensorLoader::epoch() const { return impl_->position.epoch; }
double TensorLoader::epoch_detail() const { return impl_->position.detail(impl_->sampler->size()); }
EpochSize TensorLoader::epoch_size() const { return {impl_->sampler->size(), impl_->batchsize}; }
std::int64_t TensorLoader::steps_per_epoch() const { return impl_->sampler->steps_per_epoch(); }
nlohmann::json TensorLoader::state() const { return impl_->sampler->state(impl_->position); }
void TensorLoader::load_state(const nlohmann::json& state) {
  impl_->sampler->load_state(state);
  impl_->position = impl_->sampler->position();
}
int TensorLoader::ranks() const { return impl_->ranks; }

}  // namespace mn

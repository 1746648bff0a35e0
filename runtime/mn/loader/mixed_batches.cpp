#include <mn/loader/mixed_batches.hpp>

#include <utility>

#include <nlohmann/json.hpp>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/loader/mix_images.hpp>

namespace mn {
namespace {

constexpr const char* kSeedKey = "mix_seed";

}  // namespace

MixedBatches::MixedBatches(std::shared_ptr<Iterator> batches, const data::MixOptions& options, std::int64_t num_classes,
                           std::uint64_t seed)
    : batches_(std::move(batches)), options_(options), num_classes_(num_classes), seed_(seed) {
  if (!(options.mixup >= 0 && options.cutmix >= 0)) throw ArgumentError("mixup and CutMix need an alpha of at least 0");
  if (num_classes < 1) throw ArgumentError("images without classes can't be mixed");
}

std::optional<Batch> MixedBatches::next() {
  // Called before next(), which counts the epoch as completed when it returns the epoch's last batch.
  const std::int64_t epoch = batches_->epoch();
  std::optional<Batch> batch = batches_->next();
  if (!batch) return batch;
  const at::Tensor& images = batch->data;
  const bool known = static_cast<std::int64_t>(batch->indices.size()) == batch->samples;
  if (!known || images.dim() != 4 || images.scalar_type() != at::kFloat || images.size(1) != 3 ||
      batch->target.scalar_type() != at::kLong) {
    throw ArgumentError("only float32 images (N, 3, H, W) with int64 labels and known indices can be mixed");
  }
  std::vector<data::Mix> mixes;
  for (const std::int64_t index : batch->indices) {
    mixes.push_back(batch->samples == 1 ? data::Mix{}
                                        : data::choose_mix(options_, static_cast<int>(images.size(3)),
                                                           static_cast<int>(images.size(2)), seed_, epoch, index));
  }
  batch->target = mix_labels(batch->target, mixes, num_classes_);
  if (batch->samples > 1) batch->data = mix_images(images, mixes);
  if (batch->fields.size() > 1) {  // the first two fields are the mixed tensors, too
    batch->fields[0].values = batch->data;
    batch->fields[1].values = batch->target;
  }
  return batch;
}

nlohmann::json MixedBatches::state() const {
  nlohmann::json state = batches_->state();
  state[kSeedKey] = seed_;
  return state;
}

void MixedBatches::load_state(const nlohmann::json& state) {
  batches_->load_state(state);
  if (state.contains(kSeedKey))
    read_json("the state to resume from", [&] { seed_ = whole_number<decltype(seed_)>(state.at(kSeedKey)); });
}

}  // namespace mn

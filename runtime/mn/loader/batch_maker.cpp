#include <mn/loader/batch_maker.hpp>

#include <algorithm>
#include <optional>

#include <ATen/core/Tensor.h>

#include <mn/core/random.hpp>

namespace mn {
namespace {

// A damaged sample is replaced by another sample, the stand-in. If the stand-in is damaged, too, another stand-in
// replaces it, up to this number of times.
constexpr int kMaxStandIns = 16;

std::int64_t stand_in(std::int64_t index, std::int64_t samples) {
  return static_cast<std::int64_t>(SplitMix64(static_cast<std::uint64_t>(index)).next() %
                                   static_cast<std::uint64_t>(samples));
}

/// If the transform made only the first field, default_field() makes all others.
std::vector<BatchField> all_fields(Transformed made, const RawBatch& batch) {
  const auto& specs = batch.spec.fields;
  std::vector<BatchField> fields = std::move(made.fields());
  if (!made.has_all()) {
    for (std::size_t f = 1; f < specs.size(); ++f) fields.push_back(default_field(batch, f));
  }
  if (fields.empty()) throw ArgumentError("a loader's transform returned no fields");
  for (std::size_t f = 0; f < std::min(fields.size(), specs.size()); ++f) {
    if (fields[f].name.empty()) fields[f].name = specs[f].name;
  }
  return fields;
}

std::int64_t bytes_of(const std::vector<BatchField>& fields) {
  std::int64_t bytes = 0;
  for (const BatchField& field : fields) bytes += static_cast<std::int64_t>(field.values.nbytes());
  return bytes;
}

}  // namespace

BatchMaker::BatchMaker(std::shared_ptr<const Dataset> source, const LoaderOptions& options, int threads)
    : source_(std::move(source)), options_(&options), copier_(options.device), team_(threads) {}

LoadedBatch BatchMaker::make(const SamplerStep& step, std::int64_t order, RawSamples& raw) const {
  LoadedBatch made;
  made.times.begun = std::chrono::steady_clock::now();
  std::vector<std::int64_t> indices = step.indices;
  std::vector<BatchField> fields = read(step, order, indices, raw, made);
  made.bytes = {.raw = raw.bytes(), .made = bytes_of(fields)};
  copier_.copy(fields, options_->on_device, made.copied);
  made.bytes.kept = bytes_of(fields);
  if (options_->device.type != DeviceType::kCpu || options_->on_device) made.bytes.made += made.bytes.kept;
  made.batch = {.data = fields[0].values,
                .target = fields.size() > 1 ? fields[1].values : at::Tensor(),
                .samples = raw.size(),
                .indices = std::move(indices),
                .fields = std::move(fields)};
  return made;
}

std::vector<BatchField> BatchMaker::read(const SamplerStep& step, std::int64_t order,
                                         std::vector<std::int64_t>& indices, RawSamples& raw, LoadedBatch& made) const {
  std::vector<SampleError>& first_damaged = made.damaged;
  for (int round = 0;; ++round) {
    std::vector<SampleError> damaged;
    source_->read(indices, raw, &damaged);
    made.times.read = std::chrono::steady_clock::now();
    RawBatch batch{raw, indices, source_->spec(), step.seed, step.epoch, copier_.memory()};
    const std::size_t unread = damaged.size();
    Transformed transformed = transform(batch, order, damaged);
    made.times.transformed = std::chrono::steady_clock::now();
    // A transform knows only samples, not their names and files, so these are added to its error texts.
    for (std::size_t i = unread; i < damaged.size(); ++i) {
      damaged[i].what = source_->where(indices[damaged[i].position]) + " (" + damaged[i].what + ")";
    }
    if (damaged.empty()) return all_fields(std::move(transformed), batch);
    if (round == 0) first_damaged = damaged;
    if (options_->max_corrupt == 0 || round == kMaxStandIns) throw DataError(damaged.front().what);
    // Thrown before any stand-in is read, because reads take long if a file server is down.
    if (std::ssize(first_damaged) > options_->max_corrupt) throw too_many(std::ssize(first_damaged), first_damaged);
    for (const SampleError& error : damaged) {
      indices[error.position] = stand_in(indices[error.position], source_->size());
    }
  }
}

Transformed BatchMaker::transform(RawBatch& batch, std::int64_t order, std::vector<SampleError>& damaged) const {
  std::optional<Transformed> made;
  team_.run(order, [&](const ForEach& for_each) {
    if (ends_) throw DataError("the loader has ended");  // nobody waits for this batch
    batch.for_each = for_each;
    made = options_->transform(batch, damaged);
  });
  return std::move(*made);
}

DataError BatchMaker::too_many(std::int64_t count, const std::vector<SampleError>& damaged) const {
  return DataError("this rank read " + std::to_string(count) + " damaged samples in an epoch, " +
                   std::to_string(options_->max_corrupt) + " are allowed; the last: " + damaged.back().what);
}

}  // namespace mn

// Batches made ahead by worker threads and handed out in the order of the sampler's steps.
//
// The calling thread asks the sampler for steps and queues a slot for each. Workers take slots from todo_, read the
// samples, transform them and start their copy to the device; next() waits for the front slot.
//
// (1) A batch is a function of its step alone: the number of workers and the prefetch depth change no bit.
// (2) The sampler runs on the calling thread only, ahead of what was handed out; state() therefore takes epoch and
//     consumed from the last batch handed out, not from the sampler.
// (3) queue_ holds slots in step order; todo_ holds those that no worker has taken. mutex_ guards todo_ and every
//     Slot::ready; all else in a slot belongs to its worker until ready, and to the caller after.
// (4) A damaged sample is replaced by another one, which its index names: the same in every run. More than max_corrupt
//     of them in an epoch are an error.
// (5) An error in a worker is thrown by the next() that would have handed out the batch.
// (6) Once the destructor has begun, no worker takes a slot.
//
// Cost: prefetch + 1 batches in memory, as far as prefetch_bytes allows, by the largest batch so far; no messages.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include <ATen/core/Tensor.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/random.hpp>
#include <mn/core/signal_stack.hpp>
#include <mn/loader/batch_copier.hpp>
#include <mn/loader/loader.hpp>
#include <mn/loader/loader_sampler.hpp>
#include <mn/loader/permit.hpp>

namespace mn {
namespace {

constexpr int kReadAhead = 7;  // threads beside the workers that wait for files, a batch each
// Damage rarely comes alone: a sample's stand-in may lie anywhere, and may have a stand-in itself.
constexpr int kMostStandIns = 16;

std::int64_t stand_in(std::int64_t index, std::int64_t samples) {
  return static_cast<std::int64_t>(SplitMix64(static_cast<std::uint64_t>(index)).next() %
                                   static_cast<std::uint64_t>(samples));
}

/// One step: made by a worker, handed out in order.
struct Slot {
  std::optional<SamplerStep> step;  // no value: the end of an epoch
  bool ready = false;
  Batch batch;
  CopyTicket copied;
  std::int64_t bytes = 0;  // that it takes, with the raw samples it was made of
  std::vector<SampleError> damaged;
  std::exception_ptr error;
};

/// All fields of the minibatch, with their names.
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

}  // namespace

class DataLoader::Impl {
 public:
  Impl(std::shared_ptr<const SubDataset> dataset, LoaderOptions options)
      : dataset_(std::move(dataset)),
        source_(dataset_->shared() && !options.by_part ? dataset_->shared() : dataset_),
        options_(std::move(options)),
        sampler_(make_sampler(*dataset_, options_)),
        copier_(options_.device),
        transforms_(std::max(options_.workers, 1)) {
    if (options_.workers < 0 || options_.prefetch < 0)
      throw UsageError("a loader's workers and prefetch can't be negative");
    const bool ahead = options_.workers > 0 && dataset_->shared() && dataset_->shared()->layout().files > 0;
    for (int i = 0; i < options_.workers + (ahead ? kReadAhead : 0); ++i) {
      workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  }

  ~Impl() {
    ends_ = true;
    {
      const std::lock_guard lock(mutex_);
      todo_.clear();
    }
    for (auto& worker : workers_) worker.request_stop();
  }

  std::optional<Batch> next() {
    fill(1);
    const auto slot = std::move(queue_.front());
    queue_.pop_front();
    fill(prefetch());  // workers continue while the caller computes, and while it waits
    wait(*slot);
    batch_bytes_ = std::max(batch_bytes_, slot->bytes);
    if (slot->error) std::rethrow_exception(slot->error);
    if (!slot->step) return std::nullopt;
    const SamplerStep& step = *slot->step;
    count_damaged(slot->damaged, step.epoch);
    slot->copied.wait(slot->batch.fields);
    epoch_ = step.epoch + (step.ends_epoch ? 1 : 0);
    consumed_ = step.ends_epoch ? 0 : step.consumed;
    return std::move(slot->batch);
  }

  void load_state(const nlohmann::json& state) {
    sampler_->load_state(state);
    epoch_ = sampler_->epoch();
    consumed_ = sampler_->consumed();
    queue_.clear();  // a worker finishes the slot that it holds; nobody else does then
    const std::lock_guard lock(mutex_);
    todo_.clear();
  }

  const SubDataset& dataset() const { return *dataset_; }
  const Sampler& sampler() const { return *sampler_; }
  std::int64_t epoch() const { return epoch_; }
  std::int64_t consumed() const { return consumed_; }
  std::int64_t corrupt() const { return corrupt_; }
  double data_wait_s() const { return data_wait_s_; }

 private:
  /// As many batches as options allow; the first one tells how large they are.
  [[nodiscard]] int prefetch() const {
    if (batch_bytes_ == 0) return std::min(options_.prefetch, 1);
    const std::int64_t room = std::max<std::int64_t>(options_.prefetch_bytes / batch_bytes_, 1);
    return static_cast<int>(std::min<std::int64_t>(options_.prefetch, room));
  }

  /// Queues slots until there are `count`, and hands them to the workers.
  void fill(int count) {
    while (static_cast<int>(queue_.size()) < count) {
      auto slot = std::make_shared<Slot>();
      slot->step = sampler_->next();
      slot->ready = !slot->step;
      queue_.push_back(slot);
      if (!slot->step || options_.workers == 0) continue;
      const std::lock_guard lock(mutex_);
      todo_.push_back(slot);
      wake_.notify_one();
    }
  }

  void wait(Slot& slot) {
    const auto begin = std::chrono::steady_clock::now();
    if (options_.workers == 0) {
      if (slot.step) prepare(slot, raw_);
    } else {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [&] { return slot.ready; });
    }
    data_wait_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  void work(const std::stop_token& stop) {
    const SignalStack stack;
    RawSamples raw;
    while (true) {
      std::shared_ptr<Slot> slot;
      {
        std::unique_lock lock(mutex_);
        if (!wake_.wait(lock, stop, [&] { return !todo_.empty(); })) return;
        slot = std::move(todo_.front());
        todo_.pop_front();
      }
      prepare(*slot, raw);
      const std::lock_guard lock(mutex_);
      slot->ready = true;
      ready_.notify_all();
    }
  }

  void prepare(Slot& slot, RawSamples& raw) const {
    try {
      std::vector<std::int64_t> indices = slot.step->indices;
      std::vector<BatchField> fields = read(slot, indices, raw);
      slot.bytes = raw.bytes();
      for (const BatchField& field : fields) slot.bytes += static_cast<std::int64_t>(field.values.nbytes());
      copier_.copy(fields, options_.on_device, slot.copied);
      slot.batch = {.data = fields[0].values,
                    .target = fields.size() > 1 ? fields[1].values : at::Tensor(),
                    .samples = raw.size(),
                    .indices = std::move(indices),
                    .fields = std::move(fields)};
    } catch (...) {
      slot.error = std::current_exception();
    }
  }

  /// Reads and transforms; replaces damaged samples by others until none is left.
  std::vector<BatchField> read(Slot& slot, std::vector<std::int64_t>& indices, RawSamples& raw) const {
    for (int round = 0;; ++round) {
      std::vector<SampleError> damaged;
      source_->read(indices, raw, &damaged);
      const RawBatch batch{raw, indices, source_->spec(), slot.step->seed, slot.step->epoch, copier_.memory()};
      const std::size_t unread = damaged.size();
      Transformed made = transform(batch, damaged);
      for (std::size_t i = unread; i < damaged.size(); ++i) {  // a transform knows indices, not files
        damaged[i].what = source_->where(indices[damaged[i].position]) + " (" + damaged[i].what + ")";
      }
      if (damaged.empty()) return all_fields(std::move(made), batch);
      if (round == 0) slot.damaged = damaged;
      if (options_.max_corrupt == 0 || round == kMostStandIns) throw DataError(damaged.front().what);
      for (const SampleError& error : damaged) {
        indices[error.position] = stand_in(indices[error.position], source_->size());
      }
    }
  }

  /// By as many threads at a time as there are workers.
  Transformed transform(const RawBatch& batch, std::vector<SampleError>& damaged) const {
    const data::Permit permit(transforms_);
    if (ends_) throw DataError("the loader has ended");  // which nobody hears
    return options_.transform(batch, damaged);
  }

  void count_damaged(const std::vector<SampleError>& damaged, std::int64_t epoch) {
    if (std::exchange(corrupt_epoch_, epoch) != epoch) corrupt_ = 0;
    for (const SampleError& error : damaged) {
      log_warning("another sample replaces a damaged one: " + error.what);
    }
    corrupt_ += static_cast<std::int64_t>(damaged.size());
    if (corrupt_ > options_.max_corrupt) {
      throw DataError("this rank read " + std::to_string(corrupt_) + " damaged samples in an epoch, " +
                      std::to_string(options_.max_corrupt) + " are allowed; the last: " + damaged.back().what);
    }
  }

  std::shared_ptr<const SubDataset> dataset_;
  std::shared_ptr<const Dataset> source_;  // what the sampler's indices count
  LoaderOptions options_;
  std::unique_ptr<Sampler> sampler_;
  BatchCopier copier_;
  mutable std::counting_semaphore<> transforms_;
  std::atomic<bool> ends_ = false;  // the destructor has begun
  std::int64_t epoch_ = 0;
  std::int64_t consumed_ = 0;
  std::int64_t corrupt_ = 0;  // of corrupt_epoch_
  std::int64_t corrupt_epoch_ = 0;
  double data_wait_s_ = 0;
  std::int64_t batch_bytes_ = 0;  // of the largest so far
  RawSamples raw_;
  std::deque<std::shared_ptr<Slot>> queue_;  // in the order of steps

  std::mutex mutex_;  // guards todo_ and every Slot::ready
  std::condition_variable_any wake_;
  std::condition_variable ready_;
  std::deque<std::shared_ptr<Slot>> todo_;
  std::vector<std::jthread> workers_;  // last: joined before what they use is destroyed
};

DataLoader::DataLoader(std::shared_ptr<const SubDataset> dataset, LoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(options))) {}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options)
    : DataLoader(std::make_shared<const SubDataset>(std::move(dataset), 0, 1, ScatterOptions{}), std::move(options)) {}

DataLoader::~DataLoader() = default;

std::optional<Batch> DataLoader::next() { return impl_->next(); }
std::int64_t DataLoader::dataset_size() const noexcept { return impl_->dataset().global_size(); }
std::int64_t DataLoader::steps_per_epoch() const { return impl_->sampler().steps_per_epoch(); }
std::int64_t DataLoader::epoch() const { return impl_->epoch(); }

double DataLoader::epoch_detail() const {
  return static_cast<double>(impl_->epoch()) +
         static_cast<double>(impl_->consumed()) / static_cast<double>(dataset_size());
}

double DataLoader::data_wait_s() const { return impl_->data_wait_s(); }
int DataLoader::ranks() const { return impl_->dataset().ranks(); }
std::int64_t DataLoader::corrupt() const noexcept { return impl_->corrupt(); }
nlohmann::json DataLoader::state() const { return impl_->sampler().state(impl_->epoch(), impl_->consumed()); }
void DataLoader::load_state(const nlohmann::json& state) { impl_->load_state(state); }

}  // namespace mn

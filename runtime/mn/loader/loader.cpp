// The calling thread asks the sampler for steps, and queues a slot (the place for a step's batch) for each step.
// Workers take slots from todo_ and make their batches with maker_; next() waits for the front slot of queue_.
//
// (1) A batch is a function of its step alone, not of the number of workers or of batches made ahead.
// (2) The sampler runs on the calling thread only, and is ahead of the batches handed out. So state() uses the position
//     of the last batch handed out, not the sampler's position.
// (3) queue_ has slots in step order; todo_ has the slots that no worker has taken. mutex_ guards todo_, budget_, and
//     the members `ready` and `wanted` of every slot. Only the slot's worker uses the slot's other members until the
//     slot is ready; afterwards only the calling thread uses them.
// (4) The index of a damaged sample determines the sample that replaces it, so runs are reproducible. If a rank needs
//     more than max_corrupt replacements in an epoch, next() throws.
// (5) If a worker fails to make a batch, the call of next() for this batch throws the worker's error.
// (6) Once the destructor has begun, no worker takes a slot.
// (7) Workers take slots in step order, while budget_ has room, so the front slot is always begun first.
// (8) A loader that does not shuffle is for evaluation. It makes no batch of an epoch before next() asks for the
//     epoch's first batch, because batches made early would stay in memory during training.
//
// Memory: at most prefetch + 1 batches. The batches and the dataset's blocks have at most prefetch_bytes; a batch in
// work counts as much as the largest batch so far. No messages are sent.
#include <mn/loader/loader.hpp>

#include <algorithm>
#include <cassert>
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
#include <mn/loader/batch_budget.hpp>
#include <mn/loader/batch_maker.hpp>
#include <mn/loader/loader_defaults.hpp>

namespace mn {
namespace {

struct Slot {
  std::optional<SamplerStep> step;  // no value: the end of an epoch
  std::int64_t order = 0;           // number of slots queued before this slot
  bool ready = false;
  bool wanted = true;  // false after load_state(): nobody needs the batch
  LoadedBatch made;
  std::exception_ptr error;
};

std::int64_t raw_guess(const SubDataset& dataset, std::int64_t batchsize) {
  const Dataset& all = dataset.shared() ? *dataset.shared() : static_cast<const Dataset&>(dataset);
  return all.layout().bytes / std::max<std::int64_t>(all.size(), 1) * batchsize;
}

}  // namespace

class DataLoader::Impl {
 public:
  Impl(std::shared_ptr<const SubDataset> dataset, LoaderOptions options)
      : dataset_(std::move(dataset)),
        source_(dataset_->shared() && !options.by_part ? dataset_->shared() : dataset_),
        options_(std::move(options)),
        sampler_(make_sampler(*dataset_, options_)),
        is_endless_(options_.draws || options_.shuffle.value_or(dataset_->options().shuffle)),
        workers_count_(options_.workers.value_or(default_workers())),
        prefetch_(options_.prefetch.value_or(default_prefetch(workers_count_))),
        maker_(source_, options_, std::max(workers_count_, 1)),
        budget_(options_.prefetch_bytes.value_or(default_prefetch_bytes()), raw_guess(*dataset_, options_.batchsize)) {
    if (workers_count_ < 0 || prefetch_ < 0) throw UsageError("a loader's workers and prefetch can't be negative");
    source_->hold_at_most(budget_.for_dataset());
    const bool ahead = workers_count_ > 0 && dataset_->shared() && dataset_->shared()->layout().files > 0;
    for (int i = 0; i < workers_count_ + (ahead ? kReadAhead : 0); ++i) {
      workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  }

  ~Impl() {
    maker_.end();
    {
      const std::lock_guard lock(mutex_);
      todo_.clear();
    }
    for (auto& worker : workers_) worker.request_stop();
  }

  std::optional<Batch> next() {
    take_back();
    fill(1);
    const auto slot = std::move(queue_.front());
    queue_.pop_front();
    if (slot->step || is_endless_) fill(prefetch_);  // work for the workers while the caller waits or computes
    wait(*slot);
    if (slot->error) std::rethrow_exception(slot->error);
    if (!slot->step) return std::nullopt;
    const SamplerStep& step = *slot->step;
    count_damaged(slot->made.damaged, step.epoch);
    slot->made.copied.wait(slot->made.batch.fields);
    position_.pass(step);
    Batch batch = std::move(slot->made.batch);
    if (source_ == dataset_) batch.indices = dataset_->numbers(batch.indices);  // numbers in the whole dataset
    return batch;
  }

  void load_state(const nlohmann::json& state) {
    sampler_->load_state(state);
    position_ = sampler_->position();
    const std::lock_guard lock(mutex_);
    todo_.clear();
    for (const auto& slot : queue_) {  // from here on, only workers refer to these slots
      slot->wanted = false;
      if (slot->step && slot->ready) budget_.drop(slot->made.bytes.kept);
    }
    queue_.clear();
  }

  const SubDataset& dataset() const { return *dataset_; }
  const Sampler& sampler() const { return *sampler_; }
  const EpochPosition& position() const { return position_; }
  std::int64_t corrupt() const { return corrupt_; }
  std::int64_t batchsize() const noexcept { return options_.batchsize; }
  double data_wait_s() const {
    return waits_for_.queue_s + waits_for_.storage_s + waits_for_.transform_s + waits_for_.copy_s;
  }
  LoaderStats stats() const {
    LoaderStats stats = waits_for_;
    const IoStats io = source_->io();
    stats.bytes = io.bytes;
    stats.opens = io.opens;
    return stats;
  }

 private:
  void take_back() {
    const std::lock_guard lock(mutex_);
    budget_.take_back();
  }

  /// Adds slots to queue_ until it has `count` slots, and gives them to the workers. If the loader does not shuffle,
  /// stops at the end of the epoch, because no batch of the next epoch is made early.
  void fill(int count) {
    while (static_cast<int>(queue_.size()) < count) {
      if (!is_endless_ && !queue_.empty() && !queue_.back()->step) return;
      auto slot = std::make_shared<Slot>();
      slot->step = sampler_->next();
      slot->order = slots_++;
      slot->ready = !slot->step;
      queue_.push_back(slot);
      if (!slot->step || workers_count_ == 0) continue;
      const std::lock_guard lock(mutex_);
      todo_.push_back(slot);
      wake_.notify_one();
    }
  }

  void wait(Slot& slot) {
    const auto begin = std::chrono::steady_clock::now();
    if (workers_count_ == 0) {
      if (slot.step) make(slot, raw_);
    } else {
      wait_for_worker(slot);
    }
    count_wait(slot.made.times, begin);
  }

  /// Divides the time from `begin` until now, for which next() has waited, among the phases of the batch.
  void count_wait(const BatchTimes& times, BatchTimes::Time begin) {
    const auto until = [&](BatchTimes::Time end) {
      const BatchTimes::Time from = begin;
      begin = std::max(begin, end);
      return std::chrono::duration<double>(begin - from).count();
    };
    waits_for_.queue_s += until(times.begun);
    waits_for_.storage_s += until(times.read);
    waits_for_.transform_s += until(times.transformed);
    waits_for_.copy_s += until(std::chrono::steady_clock::now());
  }

  void wait_for_worker(Slot& slot) {
    std::unique_lock lock(mutex_);
    waits_ = true;
    wake_.notify_one();
    ready_.wait(lock, [&] { return slot.ready; });
    waits_ = false;
    if (!slot.step) return;
    budget_.hand_out(slot.made.bytes.kept);
    const std::int64_t needed = budget_.needed(source_->io().held);
    if (prefetch_ == 0 || needed <= budget_.bytes() || std::exchange(warned_, true)) return;
    log_warning("a loader cannot prefetch: one more minibatch needs " + std::to_string(needed) +
                " bytes of memory, the limit is " + std::to_string(budget_.bytes()) +
                " (LoaderOptions::prefetch_bytes)");
  }

  void work(const std::stop_token& stop) {
    while (true) {
      std::shared_ptr<Slot> slot;
      RawSamples raw;
      {
        std::unique_lock lock(mutex_);
        const auto has_room = [&] { return budget_.has_room(waits_, source_->io().held); };
        if (!wake_.wait(lock, stop, [&] { return !todo_.empty() && has_room(); })) return;
        slot = std::move(todo_.front());
        todo_.pop_front();
        assert(todo_.empty() || slot->order < todo_.front()->order);  // slots are taken in order
        raw = budget_.begin();
      }
      wake_.notify_one();  // wakes one more worker: a further batch may have room
      make(*slot, raw);
      {
        const std::lock_guard lock(mutex_);
        slot->ready = true;
        budget_.end(std::move(raw), slot->made.bytes, slot->wanted);
      }
      ready_.notify_all();
      wake_.notify_one();
    }
  }

  void make(Slot& slot, RawSamples& raw) const {
    try {
      slot.made = maker_.make(*slot.step, slot.order, raw);
    } catch (...) {
      slot.error = std::current_exception();
    }
  }

  void count_damaged(const std::vector<SampleError>& damaged, std::int64_t epoch) {
    if (std::exchange(corrupt_epoch_, epoch) != epoch) corrupt_ = 0;
    for (const SampleError& error : damaged) {
      log_warning("another sample replaces a damaged one: " + error.what);
    }
    corrupt_ += static_cast<std::int64_t>(damaged.size());
    if (corrupt_ > options_.max_corrupt) throw maker_.too_many(corrupt_, damaged);
  }

  std::shared_ptr<const SubDataset> dataset_;
  std::shared_ptr<const Dataset> source_;  // the dataset that the sampler's indices refer to
  LoaderOptions options_;
  std::unique_ptr<Sampler> sampler_;
  bool is_endless_;  // false if batches of the next epoch must not be made early
  int workers_count_;
  int prefetch_;
  BatchMaker maker_;
  EpochPosition position_;    // position after the last batch handed out
  std::int64_t corrupt_ = 0;  // damaged samples replaced in corrupt_epoch_
  std::int64_t corrupt_epoch_ = 0;
  LoaderStats waits_for_;                    // has only the four times, not bytes and opens
  std::int64_t slots_ = 0;                   // number of slots queued so far
  RawSamples raw_;                           // samples of the current batch if there are no workers
  std::deque<std::shared_ptr<Slot>> queue_;  // in the order of steps

  std::mutex mutex_;     // guards the members below, and `ready` and `wanted` of every slot
  bool waits_ = false;   // whether next() waits for a batch
  bool warned_ = false;  // whether the warning of a small budget was logged
  BatchBudget budget_;
  std::condition_variable_any wake_;
  std::condition_variable ready_;
  std::deque<std::shared_ptr<Slot>> todo_;
  std::vector<std::jthread> workers_;  // last: joined before the members that the threads use
};

DataLoader::DataLoader(std::shared_ptr<const SubDataset> dataset, LoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(options))) {}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options)
    : DataLoader(std::make_shared<const SubDataset>(std::move(dataset), 0, 1, ScatterOptions{}), std::move(options)) {}

DataLoader::~DataLoader() = default;

std::optional<Batch> DataLoader::next() { return impl_->next(); }
std::int64_t DataLoader::dataset_size() const noexcept { return impl_->dataset().global_size(); }
std::int64_t DataLoader::steps_per_epoch() const { return impl_->sampler().steps_per_epoch(); }
EpochSize DataLoader::epoch_size() const { return {dataset_size(), impl_->batchsize()}; }
std::int64_t DataLoader::epoch() const { return impl_->position().epoch; }
double DataLoader::epoch_detail() const { return impl_->position().detail(impl_->sampler().size()); }
double DataLoader::data_wait_s() const { return impl_->data_wait_s(); }
LoaderStats DataLoader::stats() const { return impl_->stats(); }
int DataLoader::ranks() const { return impl_->dataset().ranks(); }
std::int64_t DataLoader::corrupt() const noexcept { return impl_->corrupt(); }
nlohmann::json DataLoader::state() const { return impl_->sampler().state(impl_->position()); }
void DataLoader::load_state(const nlohmann::json& state) { impl_->load_state(state); }

}  // namespace mn

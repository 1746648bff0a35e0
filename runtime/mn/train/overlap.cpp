#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/engine.h>

#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/train/overlap.hpp>

namespace mn {
namespace {

constexpr std::uint32_t kNotReady = ~std::uint32_t{0};

std::vector<std::size_t> candidate_sizes(const OptimizerOptions& options) {
  if (options.deterministic) return {options.bucket_bytes};
  return {options.bucket_bytes / 4, options.bucket_bytes, options.bucket_bytes * 4, ~std::size_t{0}};
}

}  // namespace

OverlappedReduction::OverlappedReduction(std::vector<at::Tensor> parameters, std::shared_ptr<Communicator> comm,
                                         std::shared_ptr<GradientCompressor> compressor,
                                         const OptimizerOptions& options)
    : GradientReduction(compressor),
      comm_(std::move(comm)),
      background_(*comm_),
      shared_(std::make_shared<Shared>()),
      learning_(!options.deterministic),
      tuner_(candidate_sizes(options)) {
  shared_->compressor = std::move(compressor);
  const std::size_t count = parameters.size();
  lay_out(std::move(parameters), backward_order(count));
}

OverlappedReduction::~OverlappedReduction() {
  hooks_.reset();
  gradients_.release();
  if (std::uncaught_exceptions() > 0) return;
  // After a backward without a step, some ranks may have started more buckets than others: all start as many.
  auto most = static_cast<std::int64_t>(launched_);
  try {
    comm_->allreduce(std::span(&most, 1), ReduceOp::kMax);
    while (launched_ < static_cast<std::size_t>(most)) launch(launched_);
    background_.wait();  // no task is the last owner of memory that all ranks free together
  } catch (const std::exception& error) {
    log_error(std::string("cannot end the overlapped reduction: ") + error.what());
  }
}

void OverlappedReduction::lay_out(std::vector<at::Tensor> parameters, std::vector<std::size_t> order) {
  hooks_.reset();
  gradients_ = GradientBuffer(std::move(parameters), background_.communicator(), order);
  hooks_.emplace(this->parameters(), [this](std::size_t i) { ready(i); });  // after the buffer's own
  shared_->own = gradients_.flat();
  shared_->mean = FlatBuffer(gradients_.parameters(), gradients_.tail_count(), background_.communicator(), order);
  compressor().lay_out(order, background_.communicator());
  plan(tuner_.bucket_bytes());
}

void OverlappedReduction::plan(std::size_t bucket_bytes) {
  const auto messages = gradients_.flat().messages();
  std::vector<std::size_t> sizes;
  for (const auto& message : messages.first(messages.size() - 1)) sizes.push_back(message.bytes());  // not the tail
  buckets_ = plan_buckets(sizes, bucket_bytes, bucket_bytes / 4);
  bucket_of_.resize(parameters().size());
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    const std::size_t message = gradients_.flat().message_index(i);
    const auto after = std::upper_bound(buckets_.begin(), buckets_.end(), message,
                                        [](std::size_t m, const Bucket& bucket) { return m < bucket.first; });
    bucket_of_[i] = static_cast<std::size_t>(after - buckets_.begin()) - 1;
  }
  forget_gradients();
}

void OverlappedReduction::forget_gradients() {
  missing_.clear();
  for (const auto& bucket : buckets_) missing_.push_back(bucket.count);
  ready_version_.assign(parameters().size(), kNotReady);
  order_seen_.clear();
  hook_stream_.reset();
}

void OverlappedReduction::ready(std::size_t i) {
  if (paused()) return;
  const at::Tensor& view = gradients_.flat().view(i);
  if (ready_version_[i] != kNotReady || !parameters()[i].grad().is_same(view)) {
    disturbed_ = true;  // a second backward, or a gradient outside the buffer
    return;
  }
  if (!view.is_cpu()) {  // a bucket is copied after the stream of its last gradient alone
    const c10::Stream stream = current_stream(comm_->device());
    disturbed_ = disturbed_ || hook_stream_.value_or(stream) != stream;
    hook_stream_ = stream;
  }
  ready_version_[i] = view._version();
  order_seen_.push_back(i);
  --missing_[bucket_of_[i]];
  if (launched_ == buckets_.size() || missing_[launched_] > 0) return;
  // In the plan's order, the same on every rank: a later bucket waits for the ones before it.
  while (launched_ < buckets_.size() && missing_[launched_] == 0) launch(launched_);
  torch::autograd::Engine::get_default_engine().queue_callback([this] { finish_copies(); });  // at the end of backward
}

void OverlappedReduction::launch(std::size_t bucket) {
  submit_messages(buckets_[bucket].first, buckets_[bucket].count);
  launched_ = bucket + 1;
}

void OverlappedReduction::submit_messages(std::size_t first, std::size_t count) {
  const auto part = std::make_shared<Part>(shared_, first, count);
  if (comm_->device().type != DeviceType::kCpu) part->copy();  // enqueued where the gradients were written
  parts_.push_back(part);
  background_.submit([part](Communicator& comm) { part->reduce(comm); });
}

void OverlappedReduction::Part::copy() {
  std::call_once(copied, [this] { shared->mean.copy_from(shared->own, first, count); });
}

void OverlappedReduction::Part::reduce(Communicator& comm) {
  copy();
  shared->compressor->allreduce(shared->mean, first, count, comm);
}

/// From now on nobody but the caller reads this rank's own gradients.
void OverlappedReduction::finish_copies() {
  for (const auto& part : parts_) part->copy();
  parts_.clear();
}

bool OverlappedReduction::changed_since_launch() const {
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    if (bucket_of_[i] >= launched_) continue;
    const auto& view = gradients_.flat().view(i);
    if (!parameters()[i].grad().is_same(view) || view._version() != ready_version_[i]) return true;
  }
  return false;
}

bool OverlappedReduction::reduce(double weight) {
  finish_copies();
  disturbed_ = disturbed_ || weight != 1 || changed_since_launch();
  gradients_.collect(weight, disturbed_);
  while (launched_ < buckets_.size()) launch(launched_);
  const std::size_t all = shared_->mean.messages().size();
  submit_messages(all - 1, 1);
  background_.wait();
  if (GradientBuffer::disturbed_anywhere(shared_->mean)) {
    submit_messages(0, all);
    background_.wait();
  }
  const bool any = gradients_.finish(shared_->mean);
  if (any) compressor().commit();
  end_step();
  return any;
}

void OverlappedReduction::end_step() {
  launched_ = 0;
  disturbed_ = false;
  learn_order();
  if (const auto bucket_bytes = tuner_.step(*comm_)) plan(*bucket_bytes);
  forget_gradients();
}

/// After the first step: the order that rank 0 saw becomes the order in memory.
void OverlappedReduction::learn_order() {
  if (!std::exchange(learning_, false)) return;
  const nlohmann::json seen = comm_->bcast_obj(nlohmann::json(order_seen_), 0);
  auto order = seen.get<std::vector<std::size_t>>();
  for (const std::size_t i : backward_order(parameters().size())) {
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);  // unused so far: last
  }
  lay_out(parameters(), std::move(order));  // the means stay with the parameters, for the update
}

void OverlappedReduction::clear() {
  // After a backward without a step, buckets have left that the other ranks may not have started. They stand for this
  // step's, so that all ranks go on with the same sequence, and their result is not used.
  disturbed_ = launched_ > 0;
  finish_copies();  // after a backward that threw
  gradients_.clear();
  forget_gradients();
}

}  // namespace mn

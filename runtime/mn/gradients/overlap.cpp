#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/engine.h>

#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/gradients/overlap.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

std::vector<std::size_t> candidate_sizes(const OptimizerOptions& options) {
  if (options.deterministic) return {options.bucket_bytes};
  return {options.bucket_bytes / 4, options.bucket_bytes, options.bucket_bytes * 4, ~std::size_t{0}};
}

}  // namespace

OverlappedReduction::OverlappedReduction(std::vector<at::Tensor> parameters, std::shared_ptr<Communicator> comm,
                                         std::shared_ptr<GradientAverager> averager, GradientWatch::Depth watch,
                                         const OptimizerOptions& options)
    : GradientReduction(averager),
      comm_(std::move(comm)),
      background_(*comm_),
      watch_(watch),
      shared_(std::make_shared<Shared>()),
      learning_(!options.deterministic),
      tuner_(candidate_sizes(options)) {
  shared_->averager = std::move(averager);
  const std::size_t count = parameters.size();
  parts_expected_.assign(count, 1);
  lay_out(std::move(parameters), backward_order(count));
}

OverlappedReduction::~OverlappedReduction() {
  hooks_.reset();
  gradients_.release();
  if (std::uncaught_exceptions() > 0) return;
  // After a backward without a step some ranks may have launched more buckets than others: all launch as many.
  auto most = static_cast<std::int64_t>(launched_);
  try {
    comm_->allreduce(std::span(&most, 1), ReduceOp::kMax);
    while (launched_ < static_cast<std::size_t>(most)) launch(launched_, 1);
    background_.wait();  // memory that all ranks free together must not be freed by a task
  } catch (const std::exception& error) {
    log_error(std::string("cannot end the overlapped reduction: ") + error.what());
  }
}

void OverlappedReduction::lay_out(std::vector<at::Tensor> parameters, std::vector<std::size_t> order) {
  hooks_.reset();
  gradients_ = GradientBuffer(std::move(parameters), background_.communicator(), watch_, order);
  hooks_.emplace(this->parameters(), [this](std::size_t i) { ready(i); });  // after the buffer's own
  shared_->own = gradients_.flat();
  shared_->mean = FlatBuffer(gradients_.parameters(), gradients_.tail_count(), background_.communicator(), order);
  averager().lay_out(order, background_.communicator());
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
  gradients_.forget_ready();
  parts_seen_.assign(parameters().size(), 0);
  order_seen_.clear();
  hook_stream_.reset();
}

void OverlappedReduction::ready(std::size_t i) {
  if (paused() || ++parts_seen_[i] < parts_expected_[i]) return;
  if (!gradients_.mark_ready(i)) {  // an unexpected part, or a gradient outside the buffer
    disturbed_ = true;
    return;
  }
  check_stream();
  order_seen_.push_back(i);
  --missing_[bucket_of_[i]];
  if (launched_ == buckets_.size() || missing_[launched_] > 0) return;
  while (launched_ < buckets_.size() && missing_[launched_] == 0) launch(launched_, early_factor_);
  torch::autograd::Engine::get_default_engine().queue_callback([this] { finish_copies(); });  // at the end of backward
}

/// On a GPU a bucket is copied on the stream of its last gradient, so all must be written on one stream.
void OverlappedReduction::check_stream() {
  if (comm_->device().type == DeviceType::kCpu) return;
  const c10::Stream stream = current_stream(comm_->device());
  disturbed_ = disturbed_ || hook_stream_.value_or(stream) != stream;
  hook_stream_ = stream;
}

void OverlappedReduction::launch(std::size_t bucket, double factor) {
  submit_messages(buckets_[bucket].first, buckets_[bucket].count, factor);
  launched_ = bucket + 1;
}

void OverlappedReduction::submit_messages(std::size_t first, std::size_t count, double factor) {
  const auto part = std::make_shared<Part>(shared_, first, count, factor);
  if (comm_->device().type != DeviceType::kCpu) part->copy();  // enqueued where the gradients were written
  parts_.push_back(part);
  background_.submit([part](Communicator& comm) { part->reduce(comm); });
}

void OverlappedReduction::Part::copy() {
  std::call_once(copied, [this] { shared->mean.copy_from(shared->own, first, count, factor); });
}

void OverlappedReduction::Part::reduce(Communicator& comm) {
  copy();
  shared->averager->allreduce(shared->mean, first, count, comm);
}

/// From now on no task reads this rank's own gradients.
void OverlappedReduction::finish_copies() {
  for (const auto& part : parts_) part->copy();
  parts_.clear();
}

bool OverlappedReduction::changed_since_launch() const {
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    if (bucket_of_[i] < launched_ && !gradients_.unchanged_since_ready(i)) return true;
  }
  return false;
}

bool OverlappedReduction::reduce(double weight, double factor) {
  finish_copies();
  // Early reductions assume the announced factor and gradients that do not change any more.
  disturbed_ = disturbed_ || (launched_ > 0 && factor != early_factor_) || changed_since_launch();
  gradients_.collect(weight, factor, disturbed_);
  while (launched_ < buckets_.size()) launch(launched_, 1);  // collect() has multiplied this rank's own
  const std::size_t all = shared_->mean.messages().size();
  submit_messages(all - 1, 1, 1);
  background_.wait();
  // The tail says so to every rank: all reduce again, or none.
  if (GradientBuffer::disturbed_anywhere(shared_->mean)) {
    submit_messages(0, all, 1);
    background_.wait();
  }
  const bool any = gradients_.finish(shared_->mean);
  end_step();
  return any;
}

void OverlappedReduction::end_step() {
  launched_ = 0;
  disturbed_ = false;
  early_factor_ = 1;
  count_parts();
  learn_order();
  if (const auto bucket_bytes = tuner_.step(*comm_)) plan(*bucket_bytes);
  forget_gradients();
}

void OverlappedReduction::count_parts() {
  for (std::size_t i = 0; i < parts_seen_.size(); ++i) {
    if (parts_seen_[i] > 0) parts_expected_[i] = parts_seen_[i];
  }
}

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
  // After a backward without a step, buckets are under way that other ranks may not have launched. They count as this
  // step's, which keeps invariant (1), and their result is not used.
  disturbed_ = launched_ > 0;
  finish_copies();  // after a backward that threw
  gradients_.clear();
  forget_gradients();
  early_factor_ = 1;
}

}  // namespace mn

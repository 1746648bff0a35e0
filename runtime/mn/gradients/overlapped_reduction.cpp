#include <mn/gradients/overlapped_reduction.hpp>

#include <algorithm>
#include <cassert>
#include <exception>
#include <span>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/engine.h>

#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/stream_order.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

OverlappedReduction::OverlappedReduction(std::vector<at::Tensor> parameters, const SparseGradients::Flags& sparse,
                                         std::shared_ptr<Communicator> comm, std::shared_ptr<GradientAverager> averager,
                                         GradientWatch::Depth watch, const OptimizerOptions& options)
    : GradientReduction(std::move(comm), averager),
      watch_(watch),
      shared_(std::make_shared<Shared>()),
      buckets_(parameters.size()),
      learning_(!options.deterministic),
      tuner_(bucket_sizes(options, parameters), comm_->device()) {
  background_.emplace(*comm_, options.nccl_limits);
  share_ = averager->share_of_rank(parameters, *comm_);
  shared_->averager = std::move(averager);
  is_trained_.assign(parameters.size(), true);
  auto order = backward_order(parameters.size());
  lay_out(std::move(parameters), sparse, std::move(order));
}

OverlappedReduction::~OverlappedReduction() {
  hooks_.reset();
  if (std::uncaught_exceptions() > 0) return;
  try {
    drain();  // a task must not free memory that all ranks free together
    finish();
  } catch (const std::exception& error) {
    log_error(std::string("cannot end the overlapped reduction: ") + error.what());
  }
}

void OverlappedReduction::lay_out(std::vector<at::Tensor> parameters, const SparseGradients::Flags& sparse,
                                  std::vector<std::size_t> order) {
  const bool copies = shared_->copy != nullptr;
  // The old buffers are freed first, because the memory may not suffice for the old and the new buffers together.
  DeviceSamples::ChangeNote note = gradients_ ? gradients_->watch().change_note() : DeviceSamples::ChangeNote();
  if (gradients_) averager().count_bytes(gradients_->sparse().bytes_sent());
  hooks_.reset();
  shared_->copy.reset();
  shared_->own.reset();
  gradients_.reset();
  order_ = std::move(order);
  gradients_.emplace(std::move(parameters), sparse, background_->communicator(), watch_, order_, std::move(note));
  hooks_.emplace(this->parameters(), [this](std::size_t i) { ready(i); });  // run after the buffer's hooks
  gradients_->train_only(is_trained_);
  shared_->own = gradients_->shared_flat();
  if (copies) make_copy();
  averager().lay_out(order_, background_->communicator());
  plan(tuner_.bucket_bytes());
}

void OverlappedReduction::make_copy() {
  shared_->copy = std::make_unique<FlatBuffer>(gradients_->inside(), shared_->own->tail_count(),
                                               background_->communicator(), order_);
  shared_->copy->send_only(is_trained_);
}

void OverlappedReduction::plan(std::size_t bucket_bytes) {
  buckets_.plan(gradients_->flat(), bucket_bytes);
  forget_gradients();
}

void OverlappedReduction::forget_gradients() {
  gradients_->forget_ready();
  buckets_.begin_step(*gradients_);
  hook_stream_.reset();
  streams_differ_ = false;
}

void OverlappedReduction::announce(StepPromise::Weight weight) {
  promise_.announce(std::move(weight));
  // The promise counts only if no backward has run in this step yet, because the gradients of an earlier backward were
  // not multiplied by the promised weight.
  is_first_backward_ = buckets_.order().empty() && launched_ == 0;
}

/// Returns the factor of the announced step if its gradients may be reduced in place. For this the promise must bind
/// (invariant 4), and no rank may send copies (invariant 5). Otherwise returns no value.
std::optional<double> OverlappedReduction::binding() const {
  return promises_bind_ && is_first_backward_ ? promise_.binding() : std::nullopt;
}

void OverlappedReduction::ready(std::size_t i) {
  if (paused()) return;
  promise_.watch_backward(i, *gradients_);
  if (gradients_->is_outside(i)) return;
  look_at_stream();
  if (!buckets_.add_part(i)) return;
  if (!gradients_->mark_ready(i)) {  // an unexpected part, or a gradient outside the buffer
    if (early_ != Early::kInPlace) {
      early_ = Early::kStaleCopies;
    } else {
      gradients_->watch().forget(i);  // check_promise() will find this part
    }
    return;
  }
  if (const auto factor = binding(); factor && *factor * share() != 1) gradients_->weigh_early(i, *factor * share());
  buckets_.add_ready(i);
  if (may_launch()) launch_early();
}

/// Notes whether more than one stream writes gradients in this step. In this case no bucket is sent before the step,
/// because on a GPU a bucket's reduction waits only for the stream of the last gradient.
void OverlappedReduction::look_at_stream() {
  if (comm_->device().type == DeviceType::kCpu) return;
  const c10::Stream stream = current_stream(comm_->device());
  streams_differ_ = streams_differ_ || hook_stream_.value_or(stream) != stream;
  hook_stream_ = stream;
}

/// True if the next bucket is complete and may be sent now. The first bucket of a step decides whether the step sends
/// copies (invariant 2) or reduces in place (invariant 4).
bool OverlappedReduction::may_launch() {
  if (launched_ == buckets_.count() || !buckets_.is_complete(launched_) || streams_differ_) return false;
  if (launched_ > 0) return true;
  wants_copy_ = wants_copy_ || !promises();
  if (binding()) {
    early_ = Early::kInPlace;
  } else if (early_ == Early::kNone) {
    early_ = Early::kCopies;
  }
  return promises_bind_ ? early_ == Early::kInPlace : shared_->copy != nullptr;  // (5): a step has only one of the two
}

void OverlappedReduction::launch_early() {
  gradients_->take_waiting();  // the buckets are complete
  // Without a promise the step's weight is not known yet. The weight of the losses of all backwards up to now is used
  // instead.
  const StepWeight weight = promise_.weight().value_or(StepWeight{.divisor = gradients_->watch().weight_so_far()});
  const bool in_place = early_ == Early::kInPlace;
  if (launched_ > 0 && !in_place && weight.factor != weight_.factor) early_ = Early::kStaleCopies;
  if (launched_ == 0) weight_ = weight;                // the averager takes one divisor for all buckets
  const double factor = in_place ? 1 : weight.factor;  // in place: weigh_early() has multiplied
  const std::size_t before = launched_ == 0 ? 0 : buckets_.end_of(launched_ - 1);
  while (launched_ < buckets_.count() && buckets_.is_complete(launched_)) launch(launched_, factor);
  if (in_place) {
    for (std::size_t m = before; m < buckets_.end_of(launched_ - 1); ++m) {
      gradients_->watch().forget(*shared_->own->parameter_of(m));  // the mean overwrites the gradient
    }
  } else {
    torch::autograd::Engine::get_default_engine().queue_callback(
        [this] { finish_copies(); });  // (3): ends before backward returns
  }
}

void OverlappedReduction::launch(std::size_t bucket, double factor) {
  assert(bucket == launched_);  // (1): in order
  submit_messages(buckets_.bucket(bucket).first, buckets_.bucket(bucket).count, factor);
  launched_ = bucket + 1;
}

void OverlappedReduction::submit_messages(std::size_t first, std::size_t count, double factor) {
  const auto part = std::make_shared<Part>(shared_, first, count, factor, weight_.divisor, makes_copies());
  if (part->is_copy) {
    // let_go() is called here, not by the background task, because the program may read a mean that it keeps while the
    // task runs.
    for (std::size_t m = first; m < first + count; ++m) shared_->copy->let_go(m);
    if (comm_->device().type != DeviceType::kCpu) part->copy();  // on the stream that wrote the gradients
    parts_.push_back(part);
  }
  if (share_ != 1) shared_->averager->make_sums(share() != 1);  // the task runs at once (BackgroundReducer)
  background_->submit([part](Communicator& comm) { part->reduce(comm); });
}

void OverlappedReduction::Part::copy() {
  if (!is_copy) return;
  std::call_once(copied, [this] { shared->copy->copy_from(*shared->own, first, count, factor); });
}

void OverlappedReduction::Part::reduce(Communicator& comm) {
  copy();
  // A compressor writes to gradients in place. These writes must not raise the tensors' versions, or they would look
  // like writes of the program.
  const at::AutoDispatchBelowADInplaceOrView no_versions;
  shared->averager->allreduce(is_copy ? *shared->copy : *shared->own, first, count, divisor, comm);
}

/// Makes all copies that background tasks have not made yet. Afterwards no task reads the calling rank's gradients,
/// except to reduce them in place.
void OverlappedReduction::finish_copies() {
  for (const auto& part : parts_) part->copy();
  parts_.clear();
}

/// True if the calling rank has sent copies of gradients early, and the step's gradients differ from the copies.
bool OverlappedReduction::is_stale(const StepWeight& weight) const {
  if (launched_ == 0 || early_ == Early::kInPlace) return false;
  if (early_ == Early::kStaleCopies || weight.factor != weight_.factor) return true;
  if (shared_->averager->uses_divisor() && weight.divisor != weight_.divisor) return true;
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    if (buckets_.bucket_of(i) < launched_ && !gradients_->unchanged_since_ready(i)) return true;
  }
  return false;
}

ReductionResult OverlappedReduction::reduce(const StepWeight& weight, bool has_fault) {
  finish_copies();
  StepAgreement agreement = gradients_->collect(
      weight, {.fault = has_fault, .stale = is_stale(weight), .promises = promises(), .wants_copy = wants_copy_},
      share());
  weight_ = weight;
  FlatBuffer& reduced = makes_copies() ? *shared_->copy : *shared_->own;
  while (launched_ < buckets_.count()) launch(launched_, 1);  // collect() has multiplied the gradients
  agreement.agree(*comm_);                                    // while a device reduces
  const std::size_t all = reduced.messages().size();
  if (reduced.tail_count() > 0) submit_messages(all - 1, 1, 1);
  background_->wait();
  agreement.read(reduced.tail());
  launched_ = 0;  // reset now, because this step may throw below
  early_ = Early::kNone;
  wants_copy_ = false;
  // If copies of any rank are stale, all ranks reduce again. Invariant 5: no gradient was reduced in place.
  if (agreement.signals().stale) {
    submit_messages(0, all, 1);
    background_->wait();
  }
  const ReductionResult result = gradients_->finish(reduced, agreement);
  end_step(agreement);
  return result;
}

void OverlappedReduction::end_step(const StepAgreement& agreement) {
  promise_.keep();
  buckets_.expect_parts();
  learn_order();
  const StepAgreement::Signals signals = agreement.signals();
  if (signals.wants_copy && !shared_->copy) make_copy();
  promises_bind_ = !signals.wants_copy && (signals.promises || promises_bind_);  // (5): what the ranks agreed on
  if (const auto bucket_bytes = tuner_.step(*comm_)) plan(*bucket_bytes);
  forget_gradients();
}

void OverlappedReduction::watch_graph() { watch_work_of(background_->communicator()); }

void OverlappedReduction::learn_order() {
  if (!std::exchange(learning_, false)) return;
  const nlohmann::json seen = comm_->bcast_obj(nlohmann::json(buckets_.order()), 0);
  auto order = seen.get<std::vector<std::size_t>>();
  for (const std::size_t i : backward_order(parameters().size())) {
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);  // no gradient yet
  }
  if (order != order_) order_to_come_ = std::move(order);
}

void OverlappedReduction::train_only(const std::vector<bool>& parameters) {
  drain();
  gradients_->train_only(is_trained_ = parameters);
  if (shared_->copy) shared_->copy->send_only(parameters);
  forget_gradients();
}

void OverlappedReduction::clear() {
  if (has_given_away()) StepPromise::fail("zero_grad() came before that step");
  // If zero_grad() follows a backward without a step, ranks may have sent different numbers of buckets. The order of
  // collective calls must stay equal on all ranks (invariant 1). Therefore these buckets count as sent in the next
  // step, but as stale copies, whose results are not used.
  early_ = launched_ > 0 ? Early::kStaleCopies : Early::kNone;
  finish_copies();  // needed after a backward that threw
  gradients_->clear();
  promise_.forget();
  forget_gradients();
  if (!order_to_come_ || gradients_->is_too_large()) return;  // if too large, the optimizer will make a new reduction
  drain();
  const SparseGradients::Flags sparse = gradients_->sparse().flags();
  lay_out(parameters(), sparse, *std::exchange(order_to_come_, std::nullopt));  // (6): at zero_grad()
  tuner_.start_over();
}

void OverlappedReduction::finish() {
  if (launched_ == 0) background_->finish();
}

/// Collective. Ends all reductions that backward has begun. Ranks may have sent different numbers of buckets, therefore
/// each rank sends as many as the rank with the most, and waits for them. The next step reduces its gradients anew.
void OverlappedReduction::drain() {
  finish_copies();
  auto most = static_cast<std::int64_t>(launched_);
  comm_->allreduce(std::span(&most, 1), ReduceOp::kMax);
  const bool spoils_own = launched_ < static_cast<std::size_t>(most) && !shared_->copy && early_ != Early::kInPlace;
  for (std::size_t m = 0; spoils_own && m < shared_->own->messages().size(); ++m) shared_->own->let_go(m);
  while (launched_ < static_cast<std::size_t>(most)) launch(launched_, 1);
  background_->wait();
  launched_ = 0;
  early_ = Early::kNone;
}

}  // namespace mn

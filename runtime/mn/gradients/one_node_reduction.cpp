#include <mn/gradients/one_node_reduction.hpp>

#include <utility>

namespace mn {

OneNodeReduction::OneNodeReduction(GradientBuffer gradients, std::unique_ptr<SharedReducer> reducer,
                                   std::shared_ptr<Communicator> comm, std::shared_ptr<GradientAverager> averager,
                                   std::shared_ptr<Trace> trace)
    : GradientReduction(std::move(comm), std::move(averager)), reducer_(std::move(reducer)), trace_(std::move(trace)) {
  gradients_.emplace(std::move(gradients));
}

void OneNodeReduction::announce(StepPromise::Weight weight) {
  if (!hooks_) hooks_.emplace(parameters(), [this](std::size_t i) { ready(i); });  // run after the buffer's hooks
  promise_.announce(std::move(weight));
}

void OneNodeReduction::train_only(const std::vector<bool>& parameters) {
  gradients_->train_only(parameters);
  std::vector<bool> sent;
  for (std::size_t m = 0; m < gradients_->flat().messages().size(); ++m) sent.push_back(gradients_->flat().is_sent(m));
  reducer_->reduce_only(std::move(sent));
}

void OneNodeReduction::clear() {
  if (has_given_away()) StepPromise::fail("zero_grad() came before that step");
  promise_.forget();
  forget_published();
  gradients_->clear();
}

void OneNodeReduction::forget_published() {
  published_ = 0;
  gradients_->forget_ready();
}

void OneNodeReduction::ready(std::size_t i) {
  if (paused()) return;
  promise_.watch_backward(i, *gradients_);
  if (gradients_->is_outside(i)) return;
  if (gradients_->flat().message_index(i) < published_) {  // a second backward: check_promise() will find it
    gradients_->watch().forget(i);
    return;
  }
  const auto factor = promise_.binding();
  if (!factor || !gradients_->mark_ready(i)) return;
  if (*factor != 1) gradients_->weigh_early(i, *factor);
  const std::size_t before = published_;
  // Invariant 2: any rank may overwrite a published gradient with the mean. Therefore the watch must not report a
  // change of this gradient.
  for (; is_final(published_); ++published_) gradients_->watch().forget(*gradients_->flat().parameter_of(published_));
  if (published_ > before) reducer_->publish(published_);
}

/// True if the gradient in the message with this index is ready to be published. False for the last message of the
/// buffer, which holds no gradient but the step's weights and flags: only reduce() publishes them (invariant 3).
bool OneNodeReduction::is_final(std::size_t message) const {
  const auto i = gradients_->flat().parameter_of(message);
  return i && gradients_->is_ready(*i);
}

ReductionResult OneNodeReduction::reduce(const StepWeight& weight, bool has_fault) {
  StepAgreement agreement = gradients_->collect(weight, {.fault = has_fault});
  {
    Trace::Scope scope(trace_.get(), "reduce gradients", Trace::Lane::kCommunication);
    reducer_->reduce(1.0 / comm_->size());
    scope.set_bytes(averager().count_bytes(gradients_->flat().sent(0, gradients_->flat().messages().size())));
  }
  promise_.keep();
  forget_published();
  agreement.read(gradients_->flat().tail());
  return gradients_->finish(gradients_->flat(), agreement);
}

}  // namespace mn

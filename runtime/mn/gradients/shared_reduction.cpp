#include <utility>

#include <torch/csrc/autograd/graph_task.h>

#include <mn/core/error.hpp>
#include <mn/gradients/shared_reduction.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

SharedReduction::SharedReduction(GradientBuffer gradients, std::unique_ptr<SharedReducer> reducer, int ranks,
                                 std::shared_ptr<GradientAverager> averager, std::shared_ptr<Trace> trace)
    : GradientReduction(std::move(averager)),
      gradients_(std::move(gradients)),
      reducer_(std::move(reducer)),
      ranks_(ranks),
      trace_(std::move(trace)) {}

void SharedReduction::announce(double factor) {
  if (!hooks_) hooks_.emplace(parameters(), [this](std::size_t i) { ready(i); });  // after the buffer's own
  announced_ = factor;
}

void SharedReduction::clear() {
  if (published_ > 0) fail("zero_grad() came before that step");
  forget_announcement();
  gradients_.clear();
}

void SharedReduction::forget_announcement() {
  announced_.reset();
  task_.reset();
  twice_ = false;
  published_ = 0;
  gradients_.forget_ready();
}

/// They are tasks of their own.
void SharedReduction::look_for_inner_backwards() {
  const int task = torch::autograd::get_current_graph_task_id();
  runs_inner_backwards_ = runs_inner_backwards_ || task_.value_or(task) != task;
  task_ = task;
}

void SharedReduction::ready(std::size_t i) {
  if (!announced_ || paused()) return;
  look_for_inner_backwards();
  twice_ = twice_ || (gradients_.weighed_early() && gradients_.is_ready(i));
  if (gradients_.flat().message_index(i) < published_) {  // check_promise() finds a second backward
    gradients_.watch().forget(i);
    return;
  }
  if (!has_looked_ || runs_inner_backwards_ || !gradients_.mark_ready(i)) return;  // (4)
  if (*announced_ != 1) gradients_.weigh_early(i, *announced_);
  const std::size_t before = published_;
  // Others may overwrite what is published.
  for (; is_final(published_); ++published_) gradients_.watch().forget(*gradients_.flat().parameter_of(published_));
  if (published_ > before) reducer_->publish(published_);
}

/// The tail never is: it ends the loop above.
bool SharedReduction::is_final(std::size_t message) const {
  const auto i = gradients_.flat().parameter_of(message);
  return i && gradients_.is_ready(*i);
}

void SharedReduction::fail(const std::string& what) {
  throw UsageError("announce_step() promised that one backward and then the step follow, but " + what +
                   ": announce only the last backward of a step");
}

void SharedReduction::check_promise(double factor) const {
  const bool relied_on = published_ > 0 || gradients_.weighed_early();
  if (relied_on && factor != *announced_) fail("the step counts other samples");
  if (twice_) fail("a second backward came after that one");
  for (std::size_t m = 0; m < published_; ++m) {
    const std::size_t i = *gradients_.flat().parameter_of(m);
    if (gradients_.unchanged_since_ready(i)) continue;
    fail("the gradient of " + tensor_name(parameters()[i], i) + " changed after that backward");
  }
}

bool SharedReduction::reduce(double weight, double factor) {
  check_promise(factor);
  gradients_.collect(weight, factor);
  {
    Trace::Scope scope(trace_.get(), "reduce gradients", Trace::Lane::kCommunication);
    reducer_->reduce(1.0 / ranks_);
    scope.set_bytes(averager().count_bytes(gradients_.flat().messages()));
  }
  has_looked_ = has_looked_ || task_;
  forget_announcement();
  return gradients_.finish();
}

}  // namespace mn

#include <utility>

#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/train/shared_reduction.hpp>

namespace mn {

SharedReduction::SharedReduction(GradientBuffer gradients, std::unique_ptr<SharedReducer> reducer, int ranks,
                                 std::shared_ptr<GradientCompressor> compressor, std::shared_ptr<Trace> trace)
    : GradientReduction(std::move(compressor)),
      gradients_(std::move(gradients)),
      reducer_(std::move(reducer)),
      ranks_(ranks),
      trace_(std::move(trace)),
      ready_(gradients_.flat().messages().size()) {}

void SharedReduction::announce() {
  if (!hooks_) hooks_.emplace(parameters(), [this](std::size_t i) { ready(i); });
  announced_ = true;
}

void SharedReduction::clear() {
  if (published_ > 0) fail("zero_grad() came before that step");
  forget_announcement();
  gradients_.clear();
}

void SharedReduction::forget_announcement() {
  announced_ = false;
  published_ = 0;
  ready_.assign(ready_.size(), {});
}

void SharedReduction::ready(std::size_t i) {
  const at::Tensor& view = gradients_.flat().view(i);
  if (!announced_ || paused() || !parameters()[i].grad().is_same(view)) return;
  const std::size_t message = gradients_.flat().message_index(i);
  if (ready_[message]) return;  // check_published() sees a second backward
  ready_[message] = view._version();
  const std::size_t before = published_;
  while (ready_[published_]) ++published_;  // the tail, last, never is
  if (published_ > before) reducer_->publish(published_);
}

/// Others may have reduced what was published: nothing can be taken back.
void SharedReduction::fail(const std::string& what) {
  throw UsageError("announce_step() promised that one backward and then the step follow, but " + what +
                   ": announce only the last backward of a step");
}

void SharedReduction::check_published(double weight) const {
  if (published_ > 0 && weight != 1) fail("the step counts other samples");
  for (std::size_t m = 0; m < published_; ++m) {
    const std::size_t i = *gradients_.flat().parameter_of(m);
    const at::Tensor& view = gradients_.flat().view(i);
    if (parameters()[i].grad().is_same(view) && view._version() == ready_[m]) continue;
    fail("the gradient of " + tensor_name(parameters()[i], i) + " changed behind that backward");
  }
}

bool SharedReduction::reduce(double weight) {
  check_published(weight);
  gradients_.collect(weight);
  {
    Trace::Scope scope(trace_.get(), "reduce gradients", Trace::Lane::kCommunication);
    reducer_->reduce(1.0 / ranks_);
    scope.set_bytes(compressor().count_bytes(gradients_.flat().messages()));
  }
  forget_announcement();
  return gradients_.finish();
}

}  // namespace mn

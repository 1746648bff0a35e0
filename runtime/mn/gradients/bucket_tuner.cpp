#include <mn/gradients/bucket_tuner.hpp>

#include <algorithm>
#include <cassert>

#include <ATen/core/Tensor.h>

namespace mn {

BucketTuner::BucketTuner(std::vector<std::size_t> candidates, Device device)
    : candidates_(std::move(candidates)), device_(device), spans_(candidates_.size()), done_(candidates_.size() < 2) {
  assert(!candidates_.empty());
}

std::vector<std::size_t> bucket_sizes(const OptimizerOptions& options, const std::vector<at::Tensor>& parameters) {
  if (options.deterministic) return {options.bucket_bytes};
  std::size_t all = 0;
  for (const at::Tensor& parameter : parameters) all += parameter.nbytes();
  std::vector<std::size_t> sizes;
  for (const std::size_t quarters : {1, 4, 16, 64, 256}) {
    const std::size_t bytes = options.bucket_bytes / 4 * quarters;
    if (bytes < all) sizes.push_back(bytes);
  }
  sizes.push_back(~std::size_t{0});
  return sizes;
}

void BucketTuner::start_over() { steps_ = 0; }

std::optional<std::size_t> BucketTuner::step(Communicator& comm) {
  if (done_) return std::nullopt;
  ++steps_;
  // The first step's time is not counted: it includes the change of the size.
  if (steps_ == 1) spans_[current_].begin = Moment::now(device_);
  if (steps_ < kSteps) return std::nullopt;
  spans_[current_].end = Moment::now(device_);
  steps_ = 0;
  if (current_ + 1 < candidates_.size()) {
    ++current_;
    return bucket_bytes();
  }
  done_ = true;
  current_ = fastest(comm);
  return bucket_bytes();
}

/// Returns the index of the bucket size whose steps took the least time on rank 0. All ranks use rank 0's times;
/// therefore all ranks choose the same size (invariant 1).
std::size_t BucketTuner::fastest(Communicator& comm) const {
  std::vector<double> seconds;
  for (const Span& span : spans_) seconds.push_back(span.end.seconds_since(span.begin));
  comm.bcast(std::span(seconds), 0);
  return static_cast<std::size_t>(std::min_element(seconds.begin(), seconds.end()) - seconds.begin());
}

}  // namespace mn

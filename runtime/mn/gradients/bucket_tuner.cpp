#include <algorithm>

#include <mn/gradients/bucket_tuner.hpp>

namespace mn {

BucketTuner::BucketTuner(std::vector<std::size_t> candidates)
    : candidates_(std::move(candidates)), seconds_(candidates_.size(), 0.0), done_(candidates_.size() < 2) {}

void BucketTuner::start_over() {
  if (done_) return;
  steps_ = 0;
  seconds_[current_] = 0;
}

std::optional<std::size_t> BucketTuner::step(Communicator& comm) {
  if (done_) return std::nullopt;
  const auto now = Clock::now();
  // A size's first step includes the change to it.
  if (steps_ > 0) seconds_[current_] += std::chrono::duration<double>(now - since_).count();
  since_ = now;
  if (++steps_ < kSteps) return std::nullopt;
  steps_ = 0;
  if (current_ + 1 < candidates_.size()) {
    ++current_;
    return bucket_bytes();
  }
  done_ = true;
  comm.bcast(std::span(seconds_), 0);
  current_ = static_cast<std::size_t>(std::min_element(seconds_.begin(), seconds_.end()) - seconds_.begin());
  return bucket_bytes();
}

}  // namespace mn

/// The buckets of a flat buffer. Counts in each bucket how many gradients backward has finished.
///
/// (1) A bucket is complete if all its gradients are ready. Backward may add to one gradient several times: several
///     backwards do, or a block that recompute_activations() runs several times. Each addition is called a part. A
///     gradient is ready once it has as many parts as in the last step that made it.
/// (2) Gradients outside the buffer and gradients of frozen parameters are always ready.
#pragma once

#include <cstddef>
#include <vector>

#include <mn/gradients/bucket.hpp>
#include <mn/gradients/gradient_buffer.hpp>

namespace mn {

class ReadyBuckets {
 public:
  explicit ReadyBuckets(std::size_t parameters) : parts_expected_(parameters, 1) {}

  /// Cuts the messages of `flat` into buckets of `bucket_bytes`, except the last message, which holds no gradient. Call
  /// begin_step() next.
  void plan(const FlatBuffer& flat, std::size_t bucket_bytes);
  /// Begins a step, in which no gradient in the buffer is ready yet.
  void begin_step(const GradientBuffer& gradients);

  /// Counts one part of gradient i. Returns true if the gradient now has all expected parts, or more.
  bool add_part(std::size_t i) { return ++parts_seen_[i] >= parts_expected_[i]; }
  /// Notes that gradient i is ready. Call it once a step for each gradient in the buffer.
  void add_ready(std::size_t i);
  /// Call it at the end of a step. For each gradient that this step has made, later steps expect as many parts as in
  /// this step.
  void expect_parts();

  [[nodiscard]] std::size_t count() const noexcept { return buckets_.size(); }
  [[nodiscard]] const Bucket& bucket(std::size_t b) const { return buckets_[b]; }
  /// Returns the number of the message that follows the last message of bucket b.
  [[nodiscard]] std::size_t end_of(std::size_t b) const { return buckets_[b].first + buckets_[b].count; }
  /// Returns the index of the bucket that holds gradient i.
  [[nodiscard]] std::size_t bucket_of(std::size_t i) const { return bucket_of_[i]; }
  [[nodiscard]] bool is_complete(std::size_t b) const { return missing_[b] == 0; }
  /// Returns the parameters in the order in which add_ready() was called in this step.
  [[nodiscard]] const std::vector<std::size_t>& order() const noexcept { return order_; }

 private:
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // [parameters]
  std::vector<std::size_t> missing_;    // [buckets] gradients that are not ready
  std::vector<int> parts_seen_;         // [parameters] in this step
  std::vector<int> parts_expected_;     // [parameters] (1)
  std::vector<std::size_t> order_;
};

}  // namespace mn

#include <mn/gradients/ready_buckets.hpp>

#include <algorithm>
#include <cassert>

namespace mn {

void ReadyBuckets::plan(const FlatBuffer& flat, std::size_t bucket_bytes) {
  const auto messages = flat.messages();
  std::vector<std::size_t> sizes;
  for (const auto& message : messages.first(messages.size() - 1)) sizes.push_back(message.bytes());
  buckets_ = plan_buckets(sizes, bucket_bytes, bucket_bytes / 4);
  bucket_of_.resize(parts_expected_.size());
  for (std::size_t i = 0; i < bucket_of_.size(); ++i) {
    const auto after = std::ranges::upper_bound(buckets_, flat.message_index(i), {}, &Bucket::first);
    bucket_of_[i] = static_cast<std::size_t>(after - buckets_.begin()) - 1;
  }
}

void ReadyBuckets::begin_step(const GradientBuffer& gradients) {
  missing_.assign(buckets_.size(), 0);
  for (std::size_t i = 0; i < bucket_of_.size(); ++i) missing_[bucket_of_[i]] += gradients.is_ready(i) ? 0 : 1;
  parts_seen_.assign(bucket_of_.size(), 0);
  order_.clear();
}

void ReadyBuckets::add_ready(std::size_t i) {
  assert(missing_[bucket_of_[i]] > 0);
  order_.push_back(i);
  --missing_[bucket_of_[i]];
}

void ReadyBuckets::expect_parts() {
  for (std::size_t i = 0; i < parts_seen_.size(); ++i) {
    if (parts_seen_[i] > 0) parts_expected_[i] = parts_seen_[i];
  }
}

}  // namespace mn

/// Groups messages into buckets; the messages of a bucket are reduced together. OverlappedReduction (reduces gradients
/// during backward) uses buckets, and so does the model of its scaling in tests/scaling.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace mn {

/// A bucket: the messages [first, first + count), which are reduced together.
struct Bucket {
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t bytes = 0;  ///< bytes of these messages together
};

/// Cuts messages into buckets without changing their order; message m has message_bytes[m] bytes. Each bucket has at
/// least `bucket_bytes`, except the first and the last. The first bucket needs only `first_bytes`, so that
/// communication starts early (Li et al. 2020, PyTorch Distributed, arXiv:2006.15704).
[[nodiscard]] inline std::vector<Bucket> plan_buckets(std::span<const std::size_t> message_bytes,
                                                      std::size_t bucket_bytes, std::size_t first_bytes) {
  std::vector<Bucket> buckets;
  Bucket open;
  for (std::size_t i = 0; i < message_bytes.size(); ++i) {
    ++open.count;
    open.bytes += message_bytes[i];
    if (open.bytes >= (buckets.empty() ? first_bytes : bucket_bytes) || i + 1 == message_bytes.size()) {
      buckets.push_back(open);
      open = {.first = i + 1, .count = 0, .bytes = 0};
    }
  }
  return buckets;
}

}  // namespace mn

#include <mn/comm/bucket.hpp>

namespace mn {

std::vector<Bucket> plan_buckets(std::span<const std::size_t> message_bytes, std::size_t bucket_bytes,
                                 std::size_t first_bytes) {
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

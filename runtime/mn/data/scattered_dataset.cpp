#include <mn/data/scattered_dataset.hpp>

#include <algorithm>
#include <tuple>

#include <mn/core/error.hpp>
#include <mn/data/order.hpp>

namespace mn {
namespace {

data::EpochOrder order_of(std::int64_t n, const ScatterOptions& options) {
  return {n, {.shuffle = options.shuffle}, options.seed, 0};
}

}  // namespace

std::pair<std::int64_t, std::int64_t> scatter_index(std::int64_t n, int rank, int size, bool force_equal_length) {
  if (force_equal_length) {
    const std::int64_t first = n * rank / size;
    return {first, first + (n + size - 1) / size};
  }
  const std::int64_t more = std::min<std::int64_t>(rank, n % size);
  const std::int64_t first = n / size * rank + more;
  return {first, first + n / size + (rank < n % size ? 1 : 0)};
}

std::vector<std::int64_t> part_indices(std::int64_t n, int rank, int size, const ScatterOptions& options) {
  const auto [first, last] = scatter_index(n, rank, size, options.force_equal_length);
  const auto order = order_of(n, options);
  std::vector<std::int64_t> indices(last - first);
  for (std::int64_t i = first; i < last; ++i) indices[i - first] = order(i);
  return indices;
}

SubDataset::SubDataset(std::shared_ptr<const Dataset> shared, int rank, int ranks, const ScatterOptions& options)
    : SubDataset({.samples = nullptr, .global_size = shared->size(), .fingerprint = shared->fingerprint()}, rank, ranks,
                 options) {
  shared_ = std::move(shared);
}

SubDataset::SubDataset(ScatteredPart part, int rank, int ranks, const ScatterOptions& options)
    : part_(std::move(part.samples)),
      options_(options),
      rank_(rank),
      ranks_(ranks),
      global_size_(part.global_size),
      fingerprint_(part.fingerprint) {
  std::tie(first_, last_) = scatter_index(global_size_, rank, ranks, options.force_equal_length);
  unique_size_ = unique_size(rank);
  if (part_ && part_->size() != size()) throw ArgumentError("a scattered part has another length than its rank's");
}

std::int64_t SubDataset::unique_size(int rank) const {
  // Parts of equal length may overlap. A sample in parts r and r + 1 counts as unique in part r + 1 only.
  if (options_.force_equal_length) return global_size_ * (rank + 1) / ranks_ - global_size_ * rank / ranks_;
  const auto [first, last] = scatter_index(global_size_, rank, ranks_, false);
  return last - first;
}

std::vector<std::int64_t> SubDataset::numbers(std::span<const std::int64_t> indices) const {
  const auto order = order_of(global_size_, options_);
  std::vector<std::int64_t> numbers(indices.begin(), indices.end());
  for (std::int64_t& index : numbers) index = order(first_ + index);
  return numbers;
}

std::string SubDataset::do_where(std::int64_t index) const {
  if (part_) return part_->where(index);
  return shared_->where(order_of(global_size_, options_)(first_ + index));
}

void SubDataset::do_read(std::span<const std::int64_t> indices, RawSamples& out,
                         std::vector<SampleError>* damaged) const {
  if (part_) return part_->read(indices, out, damaged);
  shared_->read(numbers(indices), out, damaged);
}

}  // namespace mn

/// Draws samples by weight in place of a shuffle: rare classes as often as common ones, datasets in given shares.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mn {

/// Which samples an epoch draws (torch's WeightedRandomSampler).
struct DrawOptions {
  /// [samples of the dataset] A sample's probability is its weight over the sum of all weights. At least 0, finite.
  std::vector<double> weights = {};
  bool replacement = true;   ///< false: an epoch draws each sample once at most
  std::int64_t samples = 0;  ///< draws of an epoch; 0: the number of samples in the dataset
};

/// Weights that draw each class equally often: 1 / (the class's samples). `classes` has the class of each sample.
/// Throws ArgumentError for a negative class.
[[nodiscard]] std::vector<double> balanced_weights(std::span<const std::int64_t> classes);

namespace data {

/// The draws of one epoch after another: a function of (seed, epoch, position) alone.
///
/// With replacement a draw inverts the distribution function: a binary search. Without replacement an epoch takes the
/// samples with the smallest keys −log(u) / weight (Efraimidis and Spirakis, "Weighted random sampling with a
/// reservoir", 2006), which has the distribution of drawing one sample after another. Cost: 8 bytes of memory a sample,
/// and 8 more without replacement, where each epoch sorts.
class Draws {
 public:
  /// Throws UsageError unless `options` has a weight for each of `samples` samples, a weight above 0, and, without
  /// replacement, a sample with a weight above 0 for each draw.
  Draws(const DrawOptions& options, std::int64_t samples);

  /// Draws of an epoch.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Begins an epoch.
  void begin(std::uint64_t seed, std::int64_t epoch);
  /// The sample of draw `position` of the epoch.
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;
  /// Equal for equal weights and kind of draw.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return fingerprint_; }

 private:
  void sort(std::uint64_t key);

  std::int64_t size_;
  bool replacement_;
  std::uint64_t fingerprint_;
  std::vector<double> weights_;      // with replacement their sums: [i] of samples 0 … i
  std::vector<std::int64_t> order_;  // without replacement: the samples of the epoch's draws
  std::uint64_t key_ = 0;            // of the epoch
};

}  // namespace data
}  // namespace mn

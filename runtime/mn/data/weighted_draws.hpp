/// Draws samples by weight instead of a shuffle, for example to draw all classes equally often, or to mix datasets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mn {

/// Which samples an epoch draws (torch's WeightedRandomSampler).
struct DrawOptions {
  /// A weight for each sample. The probability of a sample is its weight divided by the sum of all weights. Weights
  /// must be at least 0, their sum finite, and all ranks must have equal weights.
  std::vector<double> weights = {};
  bool replacement = true;   ///< false: an epoch draws each sample once at most
  std::int64_t samples = 0;  ///< draws of an epoch; 0: as many as the dataset has samples
};

/// Weights by which all classes are drawn equally often: 1 / (number of samples of the sample's class). `classes` has
/// the class of each sample. Throws ArgumentError for a negative class.
[[nodiscard]] std::vector<double> balanced_weights(std::span<const std::int64_t> classes);

namespace data {

/// The draws of an epoch. Each draw is a function of (seed, epoch, position) alone.
///
/// With replacement, a draw picks a random number below the sum of all weights, and finds its sample by a binary search
/// in the running sums of the weights. Without replacement, an epoch takes the samples with the smallest keys −log(u) /
/// weight, with a random u in (0, 1) for each sample (Efraimidis and Spirakis, "Weighted random sampling with a
/// reservoir", 2006). The keys give the distribution of drawing one sample after another. Cost: 8 bytes of memory for
/// each sample; without replacement 8 bytes more, and a sort at the beginning of each epoch.
class Draws {
 public:
  /// Throws UsageError unless `options` has a weight for each of `samples` samples, at least one weight is above 0, the
  /// sum of the weights is finite, and the number of draws is not negative. Without replacement, at least as many
  /// weights as draws must be above 0.
  Draws(const DrawOptions& options, std::int64_t samples);

  /// Number of draws of an epoch.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Begins an epoch: operator() then gives its draws.
  void begin(std::uint64_t seed, std::int64_t epoch);
  /// The sample of draw `position` of the epoch.
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;
  /// A hash of the weights and of DrawOptions::replacement.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return fingerprint_; }

 private:
  void sort(std::uint64_t key);

  std::int64_t size_;
  bool replacement_;
  std::uint64_t fingerprint_;
  std::vector<double> weights_;      // with replacement: [i] sum of the weights of samples 0 … i
  std::vector<std::int64_t> order_;  // without replacement: the samples of the epoch's draws
  std::uint64_t key_ = 0;            // key of the epoch
};

}  // namespace data
}  // namespace mn

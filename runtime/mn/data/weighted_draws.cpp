#include <mn/data/weighted_draws.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/random.hpp>

namespace mn {
namespace {

/// A number in (0, 1) that is a function of `key` and `position`.
double uniform(std::uint64_t key, std::int64_t position) {
  const std::uint64_t bits = SplitMix64(mix_bits(key + static_cast<std::uint64_t>(position))).next();
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

const DrawOptions& checked(const DrawOptions& options, std::int64_t samples) {
  if (std::ssize(options.weights) != samples) {
    throw UsageError("drawing by weight needs a weight for each sample: there are " +
                     std::to_string(options.weights.size()) + " weights for " + std::to_string(samples) + " samples");
  }
  const auto bad = std::ranges::find_if(options.weights, [](double w) { return !(w >= 0) || std::isinf(w); });
  if (bad != options.weights.end()) {
    throw UsageError("the weight of sample " + std::to_string(bad - options.weights.begin()) + " is " +
                     std::to_string(*bad) + ": give weights of at least 0");
  }
  if (std::isinf(std::accumulate(options.weights.begin(), options.weights.end(), 0.0))) {
    throw UsageError(
        "the sum of the weights of all samples is too large for a double: divide each weight by the largest");
  }
  if (options.samples < 0) {
    throw UsageError("an epoch can't have " + std::to_string(options.samples) +
                     " draws: give DrawOptions::samples a number above 0, or 0 for as many draws as samples");
  }
  const auto drawn = std::ranges::count_if(options.weights, [](double weight) { return weight > 0; });
  const std::int64_t draws = options.samples > 0 ? options.samples : samples;
  if (drawn == 0 && samples > 0) throw UsageError("drawing by weight needs a sample with a weight above 0");
  if (!options.replacement && drawn < draws) {
    throw UsageError("an epoch of " + std::to_string(draws) +
                     " draws without replacement needs as many samples with a weight above 0, but there are " +
                     std::to_string(drawn) + ": draw fewer, or with replacement");
  }
  return options;
}

}  // namespace

std::vector<double> balanced_weights(std::span<const std::int64_t> classes) {
  const auto least = std::ranges::min_element(classes);
  if (least == classes.end()) return {};
  if (*least < 0) throw ArgumentError("balanced_weights: class " + std::to_string(*least) + " is negative");
  std::vector<double> counts(*std::ranges::max_element(classes) + 1);
  for (const std::int64_t each : classes) ++counts[each];
  std::vector<double> weights;
  weights.reserve(classes.size());
  for (const std::int64_t each : classes) weights.push_back(1 / counts[each]);
  return weights;
}

namespace data {

Draws::Draws(const DrawOptions& options, std::int64_t samples)
    : size_(checked(options, samples).samples > 0 ? options.samples : samples),
      replacement_(options.replacement),
      fingerprint_(hash64(std::as_bytes(std::span(options.weights)), replacement_ ? 1 : 0)),
      weights_(options.weights) {
  if (replacement_) std::partial_sum(weights_.begin(), weights_.end(), weights_.begin());
}

void Draws::begin(std::uint64_t seed, std::int64_t epoch) {
  key_ = mix_bits(mix_bits(seed + 1) + static_cast<std::uint64_t>(epoch));
  if (!replacement_) sort(key_);
}

void Draws::sort(std::uint64_t key) {
  std::vector<double> keys(weights_.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = weights_[i] > 0 ? -std::log(uniform(key, static_cast<std::int64_t>(i))) / weights_[i] : INFINITY;
  }
  order_.resize(keys.size());
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  std::partial_sort(order_.begin(), order_.begin() + size_, order_.end(),
                    [&](std::int64_t a, std::int64_t b) { return std::pair(keys[a], a) < std::pair(keys[b], b); });
  order_.resize(size_);
}

std::int64_t Draws::operator()(std::int64_t position) const {
  if (!replacement_) return order_[position];
  const double at = uniform(key_, position) * weights_.back();
  // Rounding can make `at` equal to the sum of all weights. Then the last sample with a weight above 0 is taken.
  const auto found =
      std::min(std::ranges::upper_bound(weights_, at), std::ranges::lower_bound(weights_, weights_.back()));
  return found - weights_.begin();
}

}  // namespace data
}  // namespace mn

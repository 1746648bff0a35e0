/// Which samples of a minibatch are mixed, and how.
#pragma once

#include <cstdint>

#include <mn/image/augment_options.hpp>
#include <mn/image/image.hpp>

namespace mn::data {

/// What becomes of a sample.
struct Mix {
  double share = 1;  ///< weight of the sample's own label in the target; the rest is its partner's
  /// CutMix: this part of the image is its partner's. Without pixels, the images are blended by `share` (mixup).
  Region pasted;
  bool operator==(const Mix&) const = default;
};

/// A function of the arguments alone: the same for any number of ranks and workers. The numbers are others than those
/// that augmentation draws for the sample. Images have width × height pixels.
[[nodiscard]] Mix choose_mix(const MixOptions& options, int width, int height, std::uint64_t seed, std::int64_t epoch,
                             std::int64_t index);

/// The offset of a sample's partner in a minibatch of n: half a minibatch away, as neighbors may be neighbors in
/// storage, where samples can be sorted by class. A sample alone is its own partner.
[[nodiscard]] constexpr std::int64_t partner_distance(std::int64_t n) { return n / 2; }

}  // namespace mn::data

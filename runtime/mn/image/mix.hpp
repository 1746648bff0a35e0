/// Chooses how the samples of a minibatch are mixed with partners, and erases parts of normalized images.
///
/// Sources: mixup, Zhang et al. 2017, arXiv:1710.09412; CutMix, Yun et al. 2019, arXiv:1905.04899, with the rounding of
/// torchvision's CutMix; Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26, 2000.
#pragma once

#include <cstdint>
#include <span>

#include <mn/image/augment_options.hpp>
#include <mn/image/image.hpp>

namespace mn::data {

struct Mix {
  double share = 1;  ///< weight of the sample's own label in the target; the rest is the partner's
  /// The part of the image that CutMix takes from the partner. If it is empty, mixup blends the two images by `share`.
  Region pasted;
  bool operator==(const Mix&) const = default;
};

/// Chooses the mix for a sample of width × height pixels. It depends on the arguments alone, and is independent of the
/// random numbers for the sample's augmentation.
[[nodiscard]] Mix choose_mix(const MixOptions& options, int width, int height, std::uint64_t seed, std::int64_t epoch,
                             std::int64_t index);

/// The distance from a sample to its partner in a minibatch of n samples. Neighbors would be bad partners, because
/// storage may be sorted by class. A single sample is its own partner.
[[nodiscard]] constexpr std::int64_t partner_distance(std::int64_t n) { return n / 2; }

/// Random erasing: sets a region of an image of size × size pixels to 0.
void erase_part(const Region& region, int size, PixelLayout layout, std::span<float> image);

}  // namespace mn::data

/// Which samples of a minibatch are mixed, and how; changes of normalized images.
///
/// Sources: mixup, Zhang et al. 2017, arXiv:1710.09412; CutMix, Yun et al. 2019, arXiv:1905.04899, with the rounding of
/// torchvision's CutMix; Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26, 2000.
#pragma once

#include <cstdint>
#include <span>

#include <mn/image/augment_options.hpp>
#include <mn/image/image.hpp>

namespace mn::data {

/// The mixture of a sample with its partner.
struct Mix {
  double share = 1;  ///< weight of the sample's own label in the target; the rest is the partner's
  /// CutMix: the part of the image to take from the partner. Without pixels, the images are blended by `share` (mixup).
  Region pasted;
  bool operator==(const Mix&) const = default;
};

/// A function of the arguments alone, for any number of ranks and workers. Draws other random numbers than the sample's
/// augmentation. Images have width × height pixels.
[[nodiscard]] Mix choose_mix(const MixOptions& options, int width, int height, std::uint64_t seed, std::int64_t epoch,
                             std::int64_t index);

/// The offset of a sample's partner in a minibatch of n: half a minibatch away, because neighbors may be neighbors in
/// storage, and storage may be sorted by class. A single sample is its own partner.
[[nodiscard]] constexpr std::int64_t partner_distance(std::int64_t n) { return n / 2; }

/// Random erasing: the region of size × size pixels becomes 0.
void erase_part(const Region& region, int size, PixelLayout layout, std::span<float> image);

/// Pixels in memory, three values each.
struct FloatShape {
  int width;
  int height;
  PixelLayout layout;
};

/// Mixup and CutMix: `out` becomes `own`, mixed with its partner. out is neither of the two.
void mix_image(const Mix& mix, const FloatShape& shape, const float* own, const float* partner, float* out);

}  // namespace mn::data

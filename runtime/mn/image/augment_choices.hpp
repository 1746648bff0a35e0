/// What becomes of one sample in one epoch: everything that is random about it.
#pragma once

#include <vector>

#include <mn/image/augment_options.hpp>
#include <mn/image/crop.hpp>
#include <mn/image/operations.hpp>
#include <mn/image/sample_random.hpp>

namespace mn::data {

/// Chosen by the sample's random numbers.
struct AugmentChoices {
  Crop crop;                               ///< the part that becomes the result
  std::vector<ImageOperation> operations;  ///< applied to the result one after another
  Region erased;                           ///< region of the result that is erased; none if its width is 0
};

/// For an image of width × height pixels. Draws the crop first: the other options do not change it.
[[nodiscard]] AugmentChoices choose_augmentation(int width, int height, const CropOptions& crop,
                                                 const AugmentOptions& options, SampleRandom& random);

/// RandAugment's operations for a result of size × size pixels, then color jitter's.
[[nodiscard]] std::vector<ImageOperation> choose_operations(int size, const AugmentOptions& options,
                                                            SampleRandom& random);

/// Random erasing's part of size × size pixels.
[[nodiscard]] Region choose_erased(int size, const AugmentOptions& options, SampleRandom& random);

}  // namespace mn::data

/// The random choices for a sample in an epoch.
///
/// Random numbers are drawn in a fixed order: crop, RandAugment, color jitter, erasing.
///
/// Sources: RandAugment, Cubuk et al. 2019, arXiv:1909.13719, with the operations and the scale of 0 to 30 of
/// torchvision's RandAugment; random erasing, Zhong et al. 2017, arXiv:1708.04896; torchvision's ColorJitter and
/// RandomErasing.
#pragma once

#include <vector>

#include <mn/image/augment_options.hpp>
#include <mn/image/crop.hpp>
#include <mn/image/operations.hpp>
#include <mn/image/sample_random.hpp>

namespace mn::data {

/// Chosen by the sample's random numbers.
struct AugmentChoices {
  Crop crop;                               ///< part of the image to show
  std::vector<ImageOperation> operations;  ///< applied to the result in this order
  Region erased;                           ///< region of the result to erase; width 0: none
};

/// For an image of width × height pixels. Draws the crop first: augmentation options never change the crop.
[[nodiscard]] AugmentChoices choose_augmentation(int width, int height, const CropOptions& crop,
                                                 const AugmentOptions& options, SampleRandom& random);

/// RandAugment's operations for a result of size × size pixels, then color jitter's.
[[nodiscard]] std::vector<ImageOperation> choose_operations(int size, const AugmentOptions& options,
                                                            SampleRandom& random);

/// Random erasing's part of size × size pixels.
[[nodiscard]] Region choose_erased(int size, const AugmentOptions& options, SampleRandom& random);

}  // namespace mn::data

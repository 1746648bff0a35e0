/// The random choices for a sample in an epoch: the part of the image to show to the network, and the changes of it.
///
/// (1) Choices depend only on width, height, options and random numbers.
/// (2) The random numbers are always drawn in this order: area and ratio of the crop, for each try; then its x and y;
///     mirroring; RandAugment; color jitter; erasing.
///
/// Sources: random_crop.hpp for the crop; torchvision's ColorJitter and RandomErasing; RandAugment, Cubuk et al. 2019,
/// arXiv:1909.13719, with the operations and the scale of 0 to 30 of torchvision's RandAugment; random erasing, Zhong
/// et al. 2017, arXiv:1708.04896.
#pragma once

#include <vector>

#include <mn/image/augment_options.hpp>
#include <mn/image/image.hpp>
#include <mn/image/operations.hpp>
#include <mn/image/random_crop.hpp>
#include <mn/image/sample_random.hpp>

namespace mn::data {

struct AugmentChoices {
  Crop crop;                               ///< part of the image to show
  std::vector<ImageOperation> operations;  ///< applied to the result in this order
  Region erased;                           ///< region of the result to erase; width 0: none
};

/// Makes all choices for a width × height image. `options` never change the crop: its random numbers are drawn first.
[[nodiscard]] AugmentChoices choose_augmentation(int width, int height, const CropOptions& crop,
                                                 const AugmentOptions& options, SampleRandom& random);

/// Chooses RandAugment's operations for a result of size × size pixels, then color jitter's operations.
[[nodiscard]] std::vector<ImageOperation> choose_operations(int size, const AugmentOptions& options,
                                                            SampleRandom& random);

/// The region to erase of a result of size × size pixels.
[[nodiscard]] Region choose_erased(int size, const AugmentOptions& options, SampleRandom& random);

}  // namespace mn::data

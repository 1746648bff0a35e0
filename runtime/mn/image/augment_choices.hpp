/// The random choices for a sample in an epoch: the part of the image shown to the network, and the changes after it.
///
/// (1) Choices are a function of (width, height, options, random numbers) alone.
/// (2) kRandomResized cuts first, then resizes: only the box's pixels count. All fixed modes and kCenter resize first,
///     then cut: pixels around the box count too, as far as the resampling filter reaches.
/// (3) The random numbers are drawn in one order: for each try of the crop area and ratio, then x and y; the mirroring;
///     RandAugment; color jitter; erasing.
///
/// Cost: no pixel is touched; at most ten tries.
/// Sources: torchvision's RandomResizedCrop, CenterCrop, ColorJitter and RandomErasing; ChainerMN's
/// examples/imagenet/train_imagenet.py; RandAugment, Cubuk et al. 2019, arXiv:1909.13719, with the operations and the
/// scale of 0 to 30 of torchvision's RandAugment; random erasing, Zhong et al. 2017, arXiv:1708.04896.
#pragma once

#include <vector>

#include <mn/image/augment_options.hpp>
#include <mn/image/image.hpp>
#include <mn/image/operations.hpp>
#include <mn/image/sample_random.hpp>

namespace mn::data {

/// The part of an image that becomes the result.
struct Crop {
  Box box;            ///< in the image's pixels
  Region readable;    ///< pixels that may count; equal to the box if cutting comes before resizing
  Region in_resized;  ///< kRandomFixed, kCenterFixed: the part's position in the resized image
  bool flip = false;
};

/// For an image of width × height pixels. options.resize ≥ options.size, but for kRandomResized.
[[nodiscard]] Crop choose_crop(int width, int height, const CropOptions& options, SampleRandom& random);

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

/// The random choices for a sample in an epoch: the part of the image that the network gets, and the changes of this
/// part.
///
/// (1) Choices depend only on width, height, options and random numbers.
/// (2) kRandomResized cuts the image first, then resizes the part, so only pixels in Crop::box influence the result.
///     All other modes resize first, then cut, so pixels around the box have influence, too, as far as the resampling
///     filter reaches.
/// (3) The random numbers are always drawn in this order: area and ratio of the crop, for each try; then its x and y;
///     mirroring; RandAugment; color jitter; erasing.
///
/// Cost: at most ten tries for the crop; no pixel is read.
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

/// The part of an image that is cut and resized to the result.
struct Crop {
  Box box;            ///< in the image's pixels
  Region readable;    ///< pixels that may influence the result; the box itself with kRandomResized
  Region in_resized;  ///< kRandomFixed, kCenterFixed: the part's position in the resized image
  bool flip = false;
};

/// Chooses the part of an image of width × height pixels. options.resize must be at least options.size, except for
/// kRandomResized.
[[nodiscard]] Crop choose_crop(int width, int height, const CropOptions& options, SampleRandom& random);

struct AugmentChoices {
  Crop crop;                               ///< part of the image to show
  std::vector<ImageOperation> operations;  ///< applied to the result in this order
  Region erased;                           ///< region of the result to erase; width 0: none
};

/// Makes all choices for an image of width × height pixels. The crop's random numbers are drawn first, so the values in
/// `options` never change the crop.
[[nodiscard]] AugmentChoices choose_augmentation(int width, int height, const CropOptions& crop,
                                                 const AugmentOptions& options, SampleRandom& random);

/// Chooses RandAugment's operations for a result of size × size pixels, and after them color jitter's operations.
[[nodiscard]] std::vector<ImageOperation> choose_operations(int size, const AugmentOptions& options,
                                                            SampleRandom& random);

/// Chooses the region of a result of size × size pixels that random erasing erases.
[[nodiscard]] Region choose_erased(int size, const AugmentOptions& options, SampleRandom& random);

}  // namespace mn::data

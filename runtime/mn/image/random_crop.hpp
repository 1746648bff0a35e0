/// Chooses the part of an image that a network gets: a random part, or the center.
///
/// (1) The choice depends only on width, height, options and random numbers.
/// (2) kRandomResized cuts the image first, then resizes the part, so only pixels in Crop::box influence the result.
///     All other modes resize first, then cut, so pixels around the box have influence, too, as far as the resampling
///     filter reaches.
///
/// Sources: torchvision's RandomResizedCrop and CenterCrop; ChainerMN's examples/imagenet/train_imagenet.py.
#pragma once

#include <mn/image/augment_options.hpp>
#include <mn/image/image.hpp>
#include <mn/image/sample_random.hpp>

namespace mn::data {

/// The part of an image that is cut and resized to the result.
struct Crop {
  Box box;            ///< in the image's pixels
  Region readable;    ///< pixels that may influence the result; the box itself with kRandomResized
  Region in_resized;  ///< kRandomFixed, kCenterFixed: the part's position in the resized image
  bool flip = false;
};

/// For an image of width × height pixels. options.resize must be at least options.size, except for kRandomResized.
[[nodiscard]] Crop choose_crop(int width, int height, const CropOptions& options, SampleRandom& random);

}  // namespace mn::data

/// The part of an image shown to the network.
///
/// (1) A crop is a function of (width, height, options, random numbers) alone.
/// (2) kRandomResized cuts first, then resizes: only the box's pixels count. All fixed modes and kCenter resize first,
///     then cut: pixels around the box count too, as far as the resampling filter reaches.
/// (3) The random numbers are drawn in one order: area and ratio, then x and y, for each try; the mirroring last.
///
/// Cost: no pixel is touched; at most ten tries.
/// Sources: torchvision's RandomResizedCrop and CenterCrop; ChainerMN's examples/imagenet/train_imagenet.py.
#pragma once

#include <mn/image/augment_options.hpp>
#include <mn/image/image.hpp>
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

}  // namespace mn::data

/// Which part of an image a network gets to see.
#pragma once

#include <mn/image/augment_options.hpp>
#include <mn/image/image.hpp>
#include <mn/image/sample_random.hpp>

namespace mn::data {

/// Which part of the image becomes the result, and how.
struct Crop {
  Box box;            ///< in the image's pixels
  Region readable;    ///< pixels that may count: the box itself where the image is cut before it is resized
  Region in_resized;  ///< kRandomFixed, kCenterFixed: the same part of the resized image
  bool flip = false;
};

/// For an image of width × height pixels. options.resize ≥ options.size, but for kRandomResized.
[[nodiscard]] Crop choose_crop(int width, int height, const CropOptions& options, SampleRandom& random);

}  // namespace mn::data

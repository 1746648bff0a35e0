/// Operations drawn by mn's seeds, on images made by rule, to compare with torchvision's results.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mn/image/augment_options.hpp>
#include <mn/image/image.hpp>
#include <mn/image/mix.hpp>
#include <mn/image/operations.hpp>

namespace mn::data {

/// One step: the image before an operation, and the operation.
struct AugmentCase {
  Image in;
  ImageOperation operation;
};

/// Each kind of operation with amounts of several magnitudes, and color jitter's, `of_each` times, on images of
/// width × height pixels; then chains of two of RandAugment's and four of color jitter's, each step a case of its own.
[[nodiscard]] std::vector<AugmentCase> augment_cases(int width, int height, int of_each, int chains);

/// An image is cut and resized.
struct ResizeCase {
  Image in;
  Region part;
  int width;
  int height;
  Interpolation filter;
};

/// Parts that seeds draw, shrunk and enlarged, with both filters.
[[nodiscard]] std::vector<ResizeCase> resize_cases(int width, int height, int count);

/// Two images, as floats from 0 to 1, are mixed; or a part of the first one is erased.
struct FloatCase {
  Image own;
  Image partner;
  Mix mix;
  Region erased;  ///< where its width is 0, the images are mixed

  /// The result, planes.
  [[nodiscard]] std::vector<float> result() const;
};

/// Mixup, CutMix and random erasing in turns, as seeds draw them. Images have size × size pixels.
[[nodiscard]] std::vector<FloatCase> float_cases(int size, int count);

/// As in torchvision: "ShearX", …; "Hue".
[[nodiscard]] std::string_view name_of(OperationKind kind);

}  // namespace mn::data

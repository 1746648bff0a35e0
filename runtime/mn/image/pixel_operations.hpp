/// Operations on pixels. Results are truncated to whole numbers, as torchvision's results are.
#pragma once

#include <mn/image/image.hpp>

namespace mn::data {

// Each of the following operations changes the image in place.

/// Each value becomes factor · value.
void adjust_brightness(Image& image, double factor);
/// Each value becomes factor · value + (1 − factor) · the mean gray of the image.
void adjust_contrast(Image& image, double factor);
/// Each value becomes factor · value + (1 − factor) · the pixel's gray.
void adjust_saturation(Image& image, double factor);
/// Turns each pixel's hue on the color wheel, by `turns` from −1/2 to 1/2.
void adjust_hue(Image& image, double turns);
/// Keeps the `bits` high bits of each value; `bits` is 0 to 8.
void posterize(Image& image, int bits);
/// Inverts values ≥ threshold.
void solarize(Image& image, double threshold);
/// Stretches each channel to the range 0 … 255.
void autocontrast(Image& image);
/// Makes the histogram of each channel as even as possible, by Pillow's rule.
void equalize(Image& image);

/// out = factor · in + (1 − factor) · blurred. Blurring averages each pixel with its eight neighbors, of weight 1/13
/// each. Pixels at the edges stay unchanged. `out` must not be `in`.
void adjust_sharpness(const Image& in, double factor, Image& out);

}  // namespace mn::data

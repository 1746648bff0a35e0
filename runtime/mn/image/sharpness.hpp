/// Sharper or softer images.
#pragma once

#include <mn/image/image.hpp>

namespace mn::data {

/// out = factor · in + (1 − factor) · blurred: each pixel with its eight neighbors, of weight 1/13 each. Pixels at the
/// edges stay unchanged. `out` must not be `in`.
void adjust_sharpness(const Image& in, double factor, Image& out);

}  // namespace mn::data

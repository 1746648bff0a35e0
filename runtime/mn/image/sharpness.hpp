/// Sharper or softer images.
#pragma once

#include <mn/image/image.hpp>

namespace mn::data {

/// out = factor · in + (1 − factor) · blurred: each pixel with its eight neighbors, which weigh 1/13 each. The pixels
/// at the edges stay as they are. `out` must be another image.
void adjust_sharpness(const Image& in, double factor, Image& out);

}  // namespace mn::data

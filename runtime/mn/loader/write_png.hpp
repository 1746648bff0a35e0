/// Writes image tensors as PNG files, and makes one image of many.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <ATen/core/Tensor.h>

namespace mn {

/// Returns a PNG file of `image`: (H, W) or (1, H, W) gray, (3, H, W) RGB, (4, H, W) RGB and alpha, on any device.
/// uint8 values are pixels. Floating-point values are clamped to 0 … 1, scaled to 0 … 255 and rounded; NaN becomes 0.
/// Sends no messages. Throws ArgumentError for other shapes and types.
[[nodiscard]] std::string encode_png(const at::Tensor& image);

/// Writes encode_png(image) to a file. In a job of several ranks, let one rank write. Throws DataError if this fails.
void write_png(const at::Tensor& image, const std::filesystem::path& path);

/// Puts the images (N, C, H, W) into one image, `columns` images in a row, with `padding` pixels of value 0 around
/// each. Equals torchvision's make_grid(images, nrow=columns, padding=padding), except that gray images stay gray.
/// Throws ArgumentError for other shapes, N = 0 and columns < 1.
[[nodiscard]] at::Tensor image_grid(const at::Tensor& images, std::int64_t columns = 8, std::int64_t padding = 2);

}  // namespace mn

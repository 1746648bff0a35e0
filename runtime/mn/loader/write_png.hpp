/// Writes image tensors as PNG files, and puts many images into one image.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <ATen/core/Tensor.h>

namespace mn {

/// Returns the bytes of a PNG file of `image`: (H, W) or (1, H, W) gray, (3, H, W) RGB, (4, H, W) RGB and alpha, on any
/// device. uint8 values are pixels. Floating-point values from 0 to 1 are scaled to 0 … 255 and rounded; values below 0
/// or above 1 are clamped, and NaN becomes 0. Sends no messages. Throws ArgumentError for other shapes and types.
[[nodiscard]] std::string encode_png(const at::Tensor& image);

/// Writes an image to a PNG file; see encode_png(). Sends no messages: in a job of several ranks, let one rank write.
/// Throws DataError if the write fails.
void write_png(const at::Tensor& image, const std::filesystem::path& path);

/// Puts the images (N, C, H, W) into one image, `columns` images in a row, with `padding` pixels of value 0 around
/// each. The result equals torchvision's make_grid(images, nrow=columns, padding=padding), except that gray images stay
/// gray. Throws ArgumentError for other shapes, N = 0 and columns < 1.
[[nodiscard]] at::Tensor image_grid(const at::Tensor& images, std::int64_t columns = 8, std::int64_t padding = 2);

}  // namespace mn

#include <mn/loader/write_png.hpp>

#include <algorithm>
#include <sstream>

#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/zeros.h>
#include <png.h>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

namespace mn {
namespace {

std::string shape_of(const at::Tensor& tensor) {
  OutText text;
  text << tensor.sizes() << ' ' << tensor.dtype();
  return text.str();
}

at::Tensor pixels_of(const at::Tensor& image) {
  const at::Tensor planes = image.dim() == 2 ? image.unsqueeze(0) : image;
  const bool has_type = image.scalar_type() == at::kByte || image.is_floating_point();
  if (planes.dim() != 3 || !has_type || planes.numel() == 0) {
    throw ArgumentError("an image is (H, W) or (C, H, W), of uint8 or floats; got " + shape_of(image));
  }
  at::Tensor values = planes.detach().to(at::kCPU);
  if (values.is_floating_point()) {
    constexpr double kWhite = 255;
    values = at::nan_to_num(values.to(at::kFloat), 0.0).clamp(0, 1).mul(kWhite).round().to(at::kByte);
  }
  return values.permute({1, 2, 0}).contiguous();
}

png_uint_32 format_of(std::int64_t channels) {
  if (channels == 1) return PNG_FORMAT_GRAY;
  if (channels == 3) return PNG_FORMAT_RGB;
  if (channels == 4) return PNG_FORMAT_RGBA;
  throw ArgumentError("a PNG has 1, 3 or 4 channels; got " + std::to_string(channels));
}

}  // namespace

std::string encode_png(const at::Tensor& image) {
  const at::Tensor pixels = pixels_of(image);
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.format = format_of(pixels.size(2));
  png.width = static_cast<png_uint_32>(pixels.size(1));
  png.height = static_cast<png_uint_32>(pixels.size(0));
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string bytes(size, '\0');
  // Errors are in `png`: libpng's simplified interface does not use longjmp.
  if (png_image_write_to_memory(&png, bytes.data(), &size, 0, pixels.const_data_ptr(), 0, nullptr) == 0) {
    throw Error(std::string("libpng cannot encode an image: ") + png.message);
  }
  bytes.resize(size);
  return bytes;
}

void write_png(const at::Tensor& image, const std::filesystem::path& path) { write_file(path, encode_png(image)); }

at::Tensor image_grid(const at::Tensor& images, std::int64_t columns, std::int64_t padding) {
  if (images.dim() != 4 || images.size(0) == 0 || columns < 1 || padding < 0) {
    throw ArgumentError("a grid needs images (N, C, H, W) and at least one column; got " + shape_of(images) + " and " +
                        std::to_string(columns) + " columns");
  }
  const std::int64_t count = images.size(0);
  const std::int64_t across = std::min(columns, count), down = (count + across - 1) / across;
  const std::int64_t height = images.size(2) + padding, width = images.size(3) + padding;
  at::Tensor grid = at::zeros({images.size(1), down * height + padding, across * width + padding}, images.options());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t top = i / across * height + padding, left = i % across * width + padding;
    grid.narrow(1, top, images.size(2)).narrow(2, left, images.size(3)).copy_(images[i]);
  }
  return grid;
}

}  // namespace mn

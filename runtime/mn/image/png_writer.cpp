#include <mn/image/png_writer.hpp>

#include <png.h>

#include <mn/core/error.hpp>

namespace mn::data {
namespace {

png_uint_32 format_of(int channels) {
  switch (channels) {
    case 1:
      return PNG_FORMAT_GRAY;
    case 3:
      return PNG_FORMAT_RGB;
    case 4:
      return PNG_FORMAT_RGBA;
    default:
      throw ArgumentError("a PNG has 1, 3 or 4 channels; got " + std::to_string(channels));
  }
}

}  // namespace

std::string encode_png(std::span<const std::uint8_t> pixels, int width, int height, int channels) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.format = format_of(channels);
  if (width < 1 || height < 1 || pixels.size() != std::size_t(width) * std::size_t(height) * std::size_t(channels)) {
    throw ArgumentError("an image of " + std::to_string(width) + " × " + std::to_string(height) + " pixels and " +
                        std::to_string(channels) + " channels does not have " + std::to_string(pixels.size()) +
                        " values");
  }
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  // No CJump is needed: libpng's simplified interface reports errors in `image`, without a longjmp.
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr) == 0) {
    throw Error(std::string("libpng cannot encode an image: ") + image.message);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace mn::data

// Replaces webp.cpp in builds without libwebp.
#include <mn/image/webp.hpp>

#include <mn/core/error.hpp>

namespace mn::data {

const ImageHeader& WebpDecoder::open(std::span<const std::byte>) {
  throw DataError(
      "a WebP, and mn was built without libwebp: install it (libwebp-dev) and build mn again, convert the image to "
      "JPEG or PNG, or leave it out");
}

void WebpDecoder::decode(Image&) {}  // never called: open() throws

}  // namespace mn::data

/// Decoding of WebPs by libwebp, where mn is built with it.
#pragma once

#include <cstddef>
#include <span>

#include <mn/image/image.hpp>

namespace mn::data {

/// Decodes one WebP after another, lossy or lossless, but no animations. One thread at a time.
///
/// Transparency is dropped, not blended. Errors are DataError without the name of the sample, which the caller knows:
/// damaged or truncated data, an animation, an mn that was built without libwebp. The decoder can be used on after an
/// error.
class WebpDecoder {
 public:
  /// Reads the header of the image as it is stored. Allocates no memory. `bytes` must live until decode() returns.
  const ImageHeader& open(std::span<const std::byte> bytes);

  /// The whole image as it is stored, once for each open(); ImageDecoder checks that.
  void decode(Image& out);

 private:
  std::span<const std::byte> bytes_;
  ImageHeader header_;
};

}  // namespace mn::data

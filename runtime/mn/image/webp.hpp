/// Decodes WebPs by libwebp, in builds with libwebp.
#pragma once

#include <cstddef>
#include <span>

#include <mn/image/image.hpp>

namespace mn::data {

/// Decodes WebPs, lossy or lossless but no animations, one by one. One thread at a time.
///
/// Transparency is dropped, not blended. Throws DataError, without the sample's name, for damaged or truncated data, an
/// animation, and in builds without libwebp. The decoder works on after an error.
class WebpDecoder {
 public:
  /// Reads the header of the stored image. Allocates no memory. `bytes` must live until decode() returns.
  const ImageHeader& open(std::span<const std::byte> bytes);

  /// Decodes the whole stored image. Once for each open(), as ImageDecoder checks.
  void decode(Image& out);

 private:
  std::span<const std::byte> bytes_;
  ImageHeader header_;
};

}  // namespace mn::data

/// Decodes TIFFs by libtiff, in builds with libtiff.
///
/// Uses libtiff's interface for RGBA, which handles all kinds of TIFF, but not its treatment of alpha and orientation:
/// alpha is dropped, and ImageDecoder turns the image.
///
/// (1) Memory is bounded by the image's size: libtiff allocates at most kMaxBytes at once.
/// (2) A damaged strip is an error: libtiff alone would go on.
/// (3) Only compressions in common use are decoded: files cannot reach libtiff's rarer codecs.
/// (4) An error leaves the decoder usable: libtiff's objects live from open() to the end of decode() only.
/// (5) libtiff gets tiles row by row: at the image's right edge, putgreytile and put16bitbwtile (4.5 to 4.7) skip bytes
///     instead of pixels.
///
/// Source: libtiff 4.5's manual (TIFFClientOpen, TIFFRGBAImage, TIFFOpenOptions); TIFF 6.0.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <mn/image/image.hpp>

namespace mn::data {

/// Decodes TIFFs and BigTIFFs, one by one: the first image of each, gray, color, palette, CMYK, YCbCr or Lab, of up to
/// 16 bits, uncompressed or packed by LZW, Deflate, PackBits, JPEG or CCITT. One thread at a time.
///
/// Transparency is dropped, not blended; 16 bits become their high 8. Throws DataError, without the sample's name, for
/// damaged or truncated data, other kinds of TIFF, and in builds without libtiff. The decoder works on after an error.
class TiffDecoder {
 public:
  TiffDecoder();
  ~TiffDecoder();
  TiffDecoder(const TiffDecoder&) = delete;
  TiffDecoder& operator=(const TiffDecoder&) = delete;

  /// Reads the header of the stored image. Allocates no memory of the image's size. `bytes` must live until decode()
  /// returns.
  const ImageHeader& open(std::span<const std::byte> bytes);

  /// Decodes the whole stored image. Once for each open(), as ImageDecoder checks.
  void decode(Image& out);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mn::data

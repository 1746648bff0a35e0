/// Decodes JPEGs by libjpeg-turbo: only the needed part, no larger than needed.
///
/// libjpeg scales in the transform domain: at 1/2, 1/4 and 1/8, with fewer samples of each 8 × 8 block. Rows above the
/// region are entropy-decoded only (skip), rows below not at all; columns beside the region are omitted in whole
/// blocks.
///
/// (1) At 1/1 the pixels equal a decode of the whole image: color is interpolated from neighbors, so a few columns
///     beside the region are decoded too.
/// (2) Every warning after which libjpeg would invent pixels is an error.
/// (3) Time and memory are bounded by the image's size: the number of scans is limited.
/// (4) An error leaves the decoder usable: open() aborts a decode under way.
///
/// Cost: entropy decoding down to the region's last row, transform and color of the region alone.
/// Source: libjpeg-turbo's libjpeg.txt ("Partial image decompression", "Decompression parameter selection").
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <mn/image/image.hpp>

namespace mn::data {

/// Decodes JPEGs, one by one. Keeps its memory; one thread at a time.
///
/// Throws DataError, without the sample's name, for damaged or truncated data; libjpeg's warnings of lost data count as
/// damage. The decoder works on after an error.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;

  /// Reads the header of the stored image. Allocates no memory of the image's size. `bytes` must live until decode()
  /// returns.
  const ImageHeader& open(std::span<const std::byte> bytes);

  /// Decodes `region` of the opened image, in stored coordinates; once for each open(). The image is scaled to 1/1,
  /// 1/2, 1/4 or 1/8 in the transform domain: the smallest scale with at least min_width × min_height pixels in the
  /// region, else 1/1. `out` may hold more than the region; returns the region's position in `out`. Gray and CMYK
  /// become RGB. At 1/1 the pixels equal a decode of the whole image.
  Box decode(const Region& region, int min_width, int min_height, Image& out);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mn::data

/// What the fuzz targets of image formats share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <mn/core/error.hpp>
#include <mn/image/image_decoder.hpp>

namespace mn::fuzz {

/// Decodes the whole image, unless its header asks for more than `max_pixels`: that only keeps a target quick.
inline int decode_input(const std::uint8_t* data, std::size_t size, std::int64_t max_pixels) {
  static data::ImageDecoder decoder;
  static data::Image image;
  try {
    const data::ImageHeader header = decoder.open(std::as_bytes(std::span(data, size)));
    if (std::int64_t{header.width} * header.height > max_pixels) return 0;
    (void)decoder.decode({0, 0, header.width, header.height}, 1, 1, image);
  } catch (const DataError&) {
  }
  return 0;
}

}  // namespace mn::fuzz

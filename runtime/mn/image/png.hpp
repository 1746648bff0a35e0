/// Decodes PNGs by libpng.
///
/// (1) A wrong checksum anywhere is an error, also in chunks without meaning for the pixels.
/// (2) Memory is bounded by the image's size: texts, profiles and unknown chunks are skipped unread, so they cannot
///     inflate.
/// (3) An error leaves the decoder usable: libpng's objects live from open() to the end of decode() only.
///
/// Cost: all rows are inflated, for any part: PNG has no random access.
/// Source: libpng's manual; PNG specification, third edition (W3C 2025), for eXIf.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <mn/image/image.hpp>

namespace mn::data {

/// Decodes PNGs of every color type and depth, interlaced or not, one by one. One thread at a time.
///
/// Pixels equal Pillow's convert("RGB"), and so torchvision's ImageFolder: transparency is dropped, not blended; gamma,
/// profiles and significant bits are ignored; 16 bits become their high 8. Only gray of 16 bits differs: Pillow clips
/// at 255 and leaves most images white.
///
/// Throws DataError, without the sample's name, for damaged or truncated data, even if only a checksum is wrong. The
/// decoder works on after an error.
class PngDecoder {
 public:
  PngDecoder();
  ~PngDecoder();
  PngDecoder(PngDecoder&&) noexcept;
  PngDecoder& operator=(PngDecoder&&) noexcept;

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

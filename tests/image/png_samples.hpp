/// PNGs of every kind: of samples by rule, with the pixels that they must decode to, or of an image.
#pragma once

#include <cstddef>
#include <vector>

#include <mn/image/image.hpp>

namespace mn::data {

enum class PngColor { kGray = 0, kRgb = 2, kPalette = 3, kGrayAlpha = 4, kRgbAlpha = 6 };  // as in the file

struct PngOptions {
  PngColor color = PngColor::kRgb;
  int depth = 8;  ///< bits of a sample
  bool interlaced = false;
  bool transparency = false;  ///< a tRNS chunk; not with alpha
  bool gamma = false;         ///< a gAMA and an sBIT chunk
  bool text = false;          ///< a tEXt chunk before the pixels and a tEXt chunk after
  int orientation = 0;        ///< EXIF's; 0: no eXIf chunk
  bool late_exif = false;     ///< after the pixels
  int width = 37;
  int height = 23;
};

struct PngSample {
  std::vector<std::byte> bytes;
  Image pixels;  ///< as stored, without the orientation
};

/// Every sample differs from its neighbors in high and low bits.
[[nodiscard]] PngSample make_png(const PngOptions& options = {});

/// The image with options.color and options.depth, 8 or 16 (a palette: 8; it has 216 colors, the nearest one for each
/// pixel). Alpha is opaque on the left and ever more transparent to the right. Width and height are the image's.
[[nodiscard]] std::vector<std::byte> encode_png(const Image& image, PngOptions options = {});

/// The offsets of its chunks.
[[nodiscard]] std::vector<std::size_t> chunks_of(const std::vector<std::byte>& png);

/// Makes the checksum of the chunk at `offset` right again.
void seal_chunk(std::vector<std::byte>& png, std::size_t offset);

}  // namespace mn::data

// Replaces tiff.cpp in builds without libtiff, or with a libtiff before 4.5.
#include <mn/image/tiff.hpp>

#include <mn/core/error.hpp>

namespace mn::data {

class TiffDecoder::Impl {};

TiffDecoder::TiffDecoder() = default;
TiffDecoder::~TiffDecoder() = default;

const ImageHeader& TiffDecoder::open(std::span<const std::byte>) {
  throw DataError(
      "a TIFF, and mn was built without libtiff 4.5 or newer: install it (libtiff-dev) and build mn again, convert the "
      "image to JPEG or PNG, or leave it out");
}

void TiffDecoder::decode(Image&) {}  // never called: open() throws

}  // namespace mn::data

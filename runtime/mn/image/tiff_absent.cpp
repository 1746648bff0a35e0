// Replaces tiff.cpp in builds without libtiff, or with a libtiff before 4.5.
#include <mn/image/format_decoder.hpp>

#include <mn/core/error.hpp>

namespace mn::data {

std::unique_ptr<FormatDecoder> make_tiff_decoder() {
  struct Absent final : FormatDecoder {
    const ImageHeader& open(std::span<const std::byte>) override {
      throw DataError(
          "a TIFF, and mn was built without libtiff 4.5 or newer: install it (libtiff-dev) and build mn again, convert "
          "the image to JPEG or PNG, or leave it out");
    }
    Box decode(const Region&, int, int, Image&) override { return {}; }  // never called: open() throws
  };
  return std::make_unique<Absent>();
}

}  // namespace mn::data

// Decodes lossy and lossless WebPs by libwebp, but no animations. Transparency is dropped, not blended.
// Source: libwebp's API (webp/decode.h); RFC 9649, "WebP Image Format", for the chunk EXIF.
#include <mn/image/format_decoder.hpp>

#include <cstdint>
#include <cstring>
#include <string>

#include <webp/decode.h>

#include <mn/core/error.hpp>
#include <mn/image/exif.hpp>

namespace mn::data {
namespace {

const std::uint8_t* bytes_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

[[noreturn]] void fail_webp(VP8StatusCode status) {
  std::string what = "its data is invalid";
  if (status == VP8_STATUS_NOT_ENOUGH_DATA || status == VP8_STATUS_SUSPENDED) what = "it ends too early";
  if (status == VP8_STATUS_OUT_OF_MEMORY) what = "there is not enough memory to decode it";
  if (status == VP8_STATUS_UNSUPPORTED_FEATURE) what = "it has a feature that libwebp does not know";
  throw DataError("damaged WebP: " + what);
}

/// Reads the chunk EXIF, a TIFF structure. In some files JPEG's mark "Exif" stands before the structure.
int read_webp_orientation(std::span<const std::byte> webp) {
  constexpr std::size_t kFileHeaderBytes = 12, kChunkHeaderBytes = 8;
  std::size_t at = kFileHeaderBytes;
  while (at + kChunkHeaderBytes <= webp.size()) {
    const std::uint8_t* chunk = bytes_of(webp) + at;
    const std::size_t size =
        chunk[4] | std::size_t{chunk[5]} << 8 | std::size_t{chunk[6]} << 16 | std::size_t{chunk[7]} << 24;
    if (size > webp.size() - at - kChunkHeaderBytes) break;
    const std::span payload(chunk + kChunkHeaderBytes, size);
    if (std::memcmp(chunk, "EXIF", 4) == 0) {
      const bool marked = size >= 4 && std::memcmp(payload.data(), "Exif", 4) == 0;
      return marked ? read_exif_orientation(payload) : read_tiff_orientation(payload);
    }
    at += kChunkHeaderBytes + size + size % 2;
  }
  return 1;
}

class WebpDecoder final : public FormatDecoder {
 public:
  const ImageHeader& open(std::span<const std::byte> bytes) override {
    bytes_ = {};
    WebPBitstreamFeatures features;
    const VP8StatusCode status = WebPGetFeatures(bytes_of(bytes), bytes.size(), &features);
    if (status != VP8_STATUS_OK) fail_webp(status);
    if (features.has_animation != 0) throw DataError("an animated WebP: convert one of its images, or leave it out");
    header_.format = ImageFormat::kWebp;
    header_.width = features.width;
    header_.height = features.height;
    header_.components = features.has_alpha != 0 ? 4 : 3;
    header_.orientation = read_webp_orientation(bytes);
    bytes_ = bytes;
    return header_;
  }

  Box decode(const Region& region, int, int, Image& out) override {
    out.resize(header_.width, header_.height);
    WebPDecoderConfig config;
    if (WebPInitDecoderConfig(&config) == 0) throw DataError("cannot start libwebp: compiled for another version");
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {out.pixels.data(), 3 * header_.width, out.pixels.size()};
    const VP8StatusCode status = WebPDecode(bytes_of(bytes_), bytes_.size(), &config);
    WebPFreeDecBuffer(&config.output);
    bytes_ = {};
    if (status != VP8_STATUS_OK) fail_webp(status);
    return to_box(region);
  }

 private:
  std::span<const std::byte> bytes_;
  ImageHeader header_;
};

}  // namespace

std::unique_ptr<FormatDecoder> make_webp_decoder() { return std::make_unique<WebpDecoder>(); }

}  // namespace mn::data

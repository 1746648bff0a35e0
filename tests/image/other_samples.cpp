#include "tests/image/other_samples.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include <tiffio.h>
#include <webp/encode.h>

namespace mn::data {
namespace {

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(std::string("cannot encode a sample: ") + what);
}

std::uint8_t gray_of(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
}

// ---- WebP -----------------------------------------------------------------------------------------------------------

void put_number(std::vector<std::byte>& bytes, std::size_t number, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(number >> (8 * i)));
}

void put_chunk(std::vector<std::byte>& bytes, const char* name, std::span<const std::byte> payload) {
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(name[i]));
  put_number(bytes, payload.size(), 4);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  if (payload.size() % 2 != 0) bytes.push_back(std::byte{0});
}

std::vector<std::byte> exif_payload(const WebpOptions& options) {
  std::vector<std::byte> bytes;
  const auto put = [&](std::string_view text) {
    for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  };
  using namespace std::string_view_literals;
  if (options.marked) put("Exif\0\0"sv);
  put("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"sv);
  put_number(bytes, static_cast<std::size_t>(options.orientation), 4);
  put_number(bytes, 0, 4);
  return bytes;
}

/// The image's chunk and others in an extended file (RFC 9649, section 2.7).
std::vector<std::byte> extend(const std::vector<std::byte>& simple, const Image& image, const WebpOptions& options) {
  constexpr std::size_t kAlphaFlag = 0x10, kExifFlag = 0x08, kAnimationFlag = 0x02;
  std::vector<std::byte> header;
  put_number(header,
             (options.alpha ? kAlphaFlag : 0) | (options.orientation > 0 ? kExifFlag : 0) |
                 (options.animation ? kAnimationFlag : 0),
             4);
  put_number(header, static_cast<std::size_t>(image.width - 1), 3);
  put_number(header, static_cast<std::size_t>(image.height - 1), 3);
  std::vector<std::byte> bytes(simple.begin(), simple.begin() + 12);
  put_chunk(bytes, "VP8X", header);
  bytes.insert(bytes.end(), simple.begin() + 12, simple.end());
  if (options.orientation > 0) put_chunk(bytes, "EXIF", exif_payload(options));
  const std::size_t size = bytes.size() - 8;
  for (int i = 0; i < 4; ++i) bytes[4 + i] = static_cast<std::byte>(size >> (8 * i));
  return bytes;
}

// ---- TIFF -----------------------------------------------------------------------------------------------------------

struct Memory {
  std::vector<std::byte> bytes;
  std::size_t at = 0;
};

TIFF* open_memory(Memory& memory, const std::string& mode) {
  const auto read = [](thandle_t handle, void* to, tmsize_t size) -> tmsize_t {
    auto& from = *static_cast<Memory*>(handle);
    const std::size_t left = from.bytes.size() - std::min(from.at, from.bytes.size());
    const std::size_t count = std::min(static_cast<std::size_t>(size), left);
    std::copy_n(from.bytes.data() + from.at, count, static_cast<std::byte*>(to));
    from.at += count;
    return static_cast<tmsize_t>(count);
  };
  const auto write = [](thandle_t handle, void* from, tmsize_t size) -> tmsize_t {
    auto& to = *static_cast<Memory*>(handle);
    const auto count = static_cast<std::size_t>(size);
    to.bytes.resize(std::max(to.bytes.size(), to.at + count));
    std::copy_n(static_cast<const std::byte*>(from), count, to.bytes.data() + to.at);
    to.at += count;
    return size;
  };
  const auto seek = [](thandle_t handle, toff_t offset, int from) -> toff_t {
    auto& file = *static_cast<Memory*>(handle);
    file.at = from == SEEK_SET ? offset : from == SEEK_CUR ? file.at + offset : file.bytes.size() + offset;
    return file.at;
  };
  const auto close = [](thandle_t) { return 0; };
  const auto size = [](thandle_t handle) -> toff_t { return static_cast<Memory*>(handle)->bytes.size(); };
  return TIFFClientOpen("sample", mode.c_str(), &memory, read, write, seek, close, size, nullptr, nullptr);
}

int samples_of(const TiffOptions& options) {
  const TiffColor color = options.color;
  if (color == TiffColor::kRgb) return 3 + options.extra;
  return (color == TiffColor::kRgbAlpha || color == TiffColor::kCmyk ? 4 : 1) + options.extra;
}

int photometric_of(TiffColor color) {
  switch (color) {
    case TiffColor::kGray:
      return PHOTOMETRIC_MINISBLACK;
    case TiffColor::kPalette:
      return PHOTOMETRIC_PALETTE;
    case TiffColor::kCmyk:
      return PHOTOMETRIC_SEPARATED;
    default:
      return PHOTOMETRIC_RGB;
  }
}

/// A sample of 8 bits.
unsigned tiff_sample(const Image& image, const TiffOptions& options, int x, int y, int channel) {
  const std::uint8_t* rgb = image.row(y) + 3 * x;
  if (channel >= samples_of(options) - options.extra) return static_cast<unsigned>(17 * x + 5 * y + channel) % 256;
  switch (options.color) {
    case TiffColor::kGray:
    case TiffColor::kPalette:
      return gray_of(rgb);
    case TiffColor::kCmyk:
      return channel == 3 ? 0 : 255U - rgb[channel];
    default:
      return channel == 3 ? static_cast<unsigned>(255 - 255 * x / image.width) : rgb[channel];
  }
}

struct Samples {
  int first;
  int last;  ///< and one more
};

/// Which samples of a pixel lie together in plane `plane`.
Samples samples_in(const TiffOptions& options, int plane) {
  return options.planar ? Samples{plane, plane + 1} : Samples{0, samples_of(options)};
}

/// These samples of `width` pixels of a row, from column `left` on. What lies beyond the image is 0xA5.
std::vector<std::uint8_t> tiff_row(const Image& image, const TiffOptions& options, int left, int width, int y,
                                   const Samples& samples) {
  std::vector<std::uint8_t> row;
  for (int i = 0; i < width; ++i) {
    for (int channel = samples.first; channel < samples.last; ++channel) {
      const bool is_inside = left + i < image.width && y < image.height;
      const unsigned value = is_inside ? tiff_sample(image, options, left + i, y, channel) : 0xA5;
      if (options.depth == 1) {
        if (i % 8 == 0) row.push_back(0);
        row.back() = static_cast<std::uint8_t>(row.back() | (value >> 7) << (7 - i % 8));
      } else if (options.depth == 16) {
        const auto wide = static_cast<std::uint16_t>(value << 8 | 0x5A);
        row.insert(row.end(), reinterpret_cast<const std::uint8_t*>(&wide),
                   reinterpret_cast<const std::uint8_t*>(&wide + 1));
      } else {
        row.push_back(static_cast<std::uint8_t>(value));
      }
    }
  }
  return row;
}

void set_fields(TIFF* tiff, const Image& image, const TiffOptions& options) {
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, image.width);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, image.height);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, samples_of(options));
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, options.depth);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, photometric_of(options.color));
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, options.compression);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, options.planar ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
  if (options.orientation > 0) TIFFSetField(tiff, TIFFTAG_ORIENTATION, options.orientation);
  if (options.sample_format > 0) TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT, options.sample_format);
  std::vector<std::uint16_t> kinds(static_cast<std::size_t>(options.extra), EXTRASAMPLE_UNSPECIFIED);
  if (options.color == TiffColor::kRgbAlpha) kinds.insert(kinds.begin(), EXTRASAMPLE_UNASSALPHA);
  if (!kinds.empty()) TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, static_cast<int>(kinds.size()), kinds.data());
  if (options.color == TiffColor::kPalette) {
    std::vector<std::uint16_t> colors[3];
    for (unsigned i = 0; i < 256; ++i) {
      colors[0].push_back(static_cast<std::uint16_t>((255 - i) * 257));
      colors[1].push_back(static_cast<std::uint16_t>(i * 7 % 256 * 257));
      colors[2].push_back(static_cast<std::uint16_t>(i * 257));
    }
    TIFFSetField(tiff, TIFFTAG_COLORMAP, colors[0].data(), colors[1].data(), colors[2].data());
  }
  if (options.tile > 0) {
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, options.tile);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, options.tile);
  } else {
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 5);
  }
}

void put_tiles(TIFF* tiff, const Image& image, const TiffOptions& options, int plane) {
  const int side = options.tile;
  for (int top = 0; top < image.height; top += side) {
    for (int left = 0; left < image.width; left += side) {
      std::vector<std::uint8_t> tile;
      for (int y = top; y < top + side; ++y) {
        const auto row = tiff_row(image, options, left, side, y, samples_in(options, plane));
        tile.insert(tile.end(), row.begin(), row.end());
      }
      require(TIFFWriteTile(tiff, tile.data(), left, top, 0, static_cast<std::uint16_t>(plane)) > 0, "a tile");
    }
  }
}

void put_strips(TIFF* tiff, const Image& image, const TiffOptions& options, int plane) {
  for (int y = 0; y < image.height; ++y) {
    auto row = tiff_row(image, options, 0, image.width, y, samples_in(options, plane));
    require(TIFFWriteScanline(tiff, row.data(), y, static_cast<std::uint16_t>(plane)) == 1, "a row");
  }
}

}  // namespace

std::vector<std::byte> encode_webp(const Image& image, const WebpOptions& options) {
  std::vector<std::uint8_t> rgba;
  for (std::size_t i = 0; i < image.pixels.size() / 3; ++i) {
    rgba.insert(rgba.end(), &image.pixels[3 * i], &image.pixels[3 * i] + 3);
    const int x = static_cast<int>(i % image.width);
    rgba.push_back(static_cast<std::uint8_t>(options.alpha ? 255 - 254 * x / image.width : 255));
  }
  std::uint8_t* out = nullptr;
  const int stride = 4 * image.width;
  const std::size_t size = options.lossless
                               ? WebPEncodeLosslessRGBA(rgba.data(), image.width, image.height, stride, &out)
                               : WebPEncodeRGBA(rgba.data(), image.width, image.height, stride, 90, &out);
  require(size > 0, "WebP");
  const auto* first = reinterpret_cast<const std::byte*>(out);
  std::vector<std::byte> bytes(first, first + size);
  WebPFree(out);
  return options.orientation > 0 || options.animation ? extend(bytes, image, options) : bytes;
}

std::vector<std::byte> encode_tiff(const Image& image, const TiffOptions& options) {
  Memory memory;
  TIFF* tiff = open_memory(memory, std::string("w") + (options.big ? "8" : "") + (options.big_endian ? "b" : "l"));
  require(tiff != nullptr, "TIFF");
  set_fields(tiff, image, options);
  for (int plane = 0; plane < (options.planar ? samples_of(options) : 1); ++plane) {
    (options.tile > 0 ? put_tiles : put_strips)(tiff, image, options, plane);
  }
  TIFFClose(tiff);
  return memory.bytes;
}

std::vector<OtherSample> other_samples(const Image& image) {
  return {
      {"lossless.webp", encode_webp(image)},
      {"lossy.webp", encode_webp(image, {.lossless = false})},
      {"alpha.webp", encode_webp(image, {.alpha = true})},
      {"lossy_alpha.webp", encode_webp(image, {.lossless = false, .alpha = true})},
      {"exif6.webp", encode_webp(image, {.orientation = 6})},
      {"plain.tif", encode_tiff(image)},
      {"lzw.tif", encode_tiff(image, {.compression = COMPRESSION_LZW})},
      {"deflate_big_endian.tif", encode_tiff(image, {.compression = COMPRESSION_ADOBE_DEFLATE, .big_endian = true})},
      {"packbits_tiles.tif", encode_tiff(image, {.compression = COMPRESSION_PACKBITS, .tile = 16})},
      {"planar_exif8.tif", encode_tiff(image, {.planar = true, .orientation = 8})},
      {"gray.tif", encode_tiff(image, {.color = TiffColor::kGray})},
      {"fax.tif", encode_tiff(image, {.color = TiffColor::kGray, .depth = 1, .compression = COMPRESSION_CCITTFAX4})},
      {"palette.tif", encode_tiff(image, {.color = TiffColor::kPalette})},
      {"alpha.tif", encode_tiff(image, {.color = TiffColor::kRgbAlpha})},
      {"cmyk.tif", encode_tiff(image, {.color = TiffColor::kCmyk})},
      {"16_bits_big.tif", encode_tiff(image, {.depth = 16, .big = true})}};
}

}  // namespace mn::data

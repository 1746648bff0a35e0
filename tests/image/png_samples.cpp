#include "tests/image/png_samples.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>

#include <png.h>
#include <zlib.h>

namespace mn::data {
namespace {

constexpr int kAlpha = 1;       // nearly transparent: blending would show
constexpr int kColorSteps = 6;  // steps of red, green and blue in the palette of an image: 6³ = 216 entries
constexpr int kColorStep = 255 / (kColorSteps - 1);

/// A stored sample.
struct Source {
  PngOptions options;
  std::function<unsigned(int x, int y, int channel)> sample;
  std::vector<png_color> palette;
};

void append(png_structp png, png_bytep bytes, std::size_t size) {
  auto& out = *static_cast<std::vector<std::byte>*>(png_get_io_ptr(png));
  const auto* first = reinterpret_cast<const std::byte*>(bytes);
  out.insert(out.end(), first, first + size);
}

int channels_of(PngColor color) {
  switch (color) {
    case PngColor::kRgb:
      return 3;
    case PngColor::kGrayAlpha:
      return 2;
    case PngColor::kRgbAlpha:
      return 4;
    default:
      return 1;
  }
}

bool has_alpha(PngColor color) { return color == PngColor::kGrayAlpha || color == PngColor::kRgbAlpha; }

/// A sample by rule.
unsigned sample_at(const PngOptions& options, int x, int y, int channel) {
  const unsigned most = (1U << options.depth) - 1;
  if (has_alpha(options.color) && channel == channels_of(options.color) - 1) return kAlpha;
  return (static_cast<unsigned>(x) * 40503U + static_cast<unsigned>(y) * 30029U +
          static_cast<unsigned>(channel) * 20011U) &
         most;
}

std::array<std::uint8_t, 3> palette_entry(unsigned index) {
  return {static_cast<std::uint8_t>(255 - index), static_cast<std::uint8_t>(index * 7),
          static_cast<std::uint8_t>(index)};
}

/// The color of a sample by the PNG standard and Pillow's convert("RGB").
std::uint8_t to_8_bits(unsigned sample, int depth) {
  return static_cast<std::uint8_t>(depth == 16 ? sample >> 8 : sample * 255 / ((1U << depth) - 1));
}

void fill_pixel(const PngOptions& options, int x, int y, std::uint8_t* rgb) {
  const bool gray = options.color == PngColor::kGray || options.color == PngColor::kGrayAlpha;
  const auto entry = palette_entry(sample_at(options, x, y, 0) & 0xFF);
  for (int c = 0; c < 3; ++c) {
    rgb[c] = options.color == PngColor::kPalette ? entry[c]
                                                 : to_8_bits(sample_at(options, x, y, gray ? 0 : c), options.depth);
  }
}

/// The color of a pixel's sample in the 216 colors, each channel rounded to the nearest step.
unsigned nearest_color(const std::uint8_t* rgb) {
  const auto step = [](std::uint8_t value) { return static_cast<unsigned>((value + kColorStep / 2) / kColorStep); };
  return (step(rgb[0]) * kColorSteps + step(rgb[1])) * kColorSteps + step(rgb[2]);
}

std::vector<png_color> color_cube() {
  std::vector<png_color> colors;
  const auto value = [](int step) { return static_cast<png_byte>(step % kColorSteps * kColorStep); };
  for (int i = 0; i < kColorSteps * kColorSteps * kColorSteps; ++i) {
    colors.push_back({value(i / kColorSteps / kColorSteps), value(i / kColorSteps), value(i)});
  }
  return colors;
}

/// A sample of an image; depth 8 or 16.
unsigned sample_of(const Image& image, const PngOptions& options, int x, int y, int channel) {
  const std::uint8_t* rgb = image.row(y) + 3 * x;
  if (options.color == PngColor::kPalette) return nearest_color(rgb);
  unsigned value = rgb[std::min(channel, 2)];
  if (options.color == PngColor::kGray || options.color == PngColor::kGrayAlpha) {
    value = (299U * rgb[0] + 587U * rgb[1] + 114U * rgb[2] + 500U) / 1000U;
  }
  if (has_alpha(options.color) && channel == channels_of(options.color) - 1) {
    value = static_cast<unsigned>(255 - 255 * x / image.width);
  }
  return options.depth == 16 ? value * 257U : value;
}

std::vector<png_byte> row_of(const Source& source, int y) {
  const auto& [width, depth] = std::pair(source.options.width, source.options.depth);
  const int channels = channels_of(source.options.color);
  std::vector<png_byte> row((static_cast<std::size_t>(width) * channels * depth + 7) / 8);
  std::size_t bit = 0;
  for (int x = 0; x < width; ++x) {
    for (int c = 0; c < channels; ++c, bit += depth) {
      const unsigned sample = source.sample(x, y, c);
      if (depth == 16) {
        row[bit / 8] = static_cast<png_byte>(sample >> 8);
        row[bit / 8 + 1] = static_cast<png_byte>(sample);
      } else {
        row[bit / 8] |= static_cast<png_byte>(sample << (8 - depth - bit % 8));
      }
    }
  }
  return row;
}

/// A TIFF directory of one entry, the orientation.
void put_exif(png_structp png, int orientation) {
  png_byte exif[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
  exif[19] = static_cast<png_byte>(orientation);
  png_write_chunk(png, reinterpret_cast<png_const_bytep>("eXIf"), exif, sizeof exif);
}

void put_text(png_structp png) {
  constexpr std::array<png_byte, 12> kText = {'C', 'o', 'm', 'm', 'e', 'n', 't', 0, 't', 'e', 'x', 't'};
  png_write_chunk(png, reinterpret_cast<png_const_bytep>("tEXt"), kText.data(), kText.size());
}

void set_header(png_structp png, png_infop info, const Source& source) {
  const PngOptions& options = source.options;
  png_set_IHDR(png, info, static_cast<png_uint_32>(options.width), static_cast<png_uint_32>(options.height),
               options.depth, static_cast<int>(options.color),
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (options.color == PngColor::kPalette) {
    png_set_PLTE(png, info, source.palette.data(), static_cast<int>(source.palette.size()));
  }
  if (options.transparency) {
    const png_byte alpha[2] = {0, kAlpha};
    const png_color_16 hidden = {};
    options.color == PngColor::kPalette ? png_set_tRNS(png, info, alpha, 2, nullptr)
                                        : png_set_tRNS(png, info, nullptr, 0, &hidden);
  }
  if (options.gamma) {
    png_set_gAMA(png, info, 1.0);
    const png_color_8 bits = {1, 1, 1, 1, 1};
    png_set_sBIT(png, info, &bits);
  }
}

void put_rows(png_structp png, const Source& source) {
  const int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; ++pass) {
    for (int y = 0; y < source.options.height; ++y) png_write_row(png, row_of(source, y).data());
  }
}

/// An error of libpng, of which a valid source has none, ends the process: no jump is set.
std::vector<std::byte> write_png(const Source& source) {
  const PngOptions& options = source.options;
  std::vector<std::byte> bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &bytes, append, nullptr);
  set_header(png, info, source);
  png_write_info(png, info);
  if (options.text) put_text(png);
  if (options.orientation != 0 && !options.late_exif) put_exif(png, options.orientation);
  put_rows(png, source);
  if (options.text) put_text(png);
  if (options.orientation != 0 && options.late_exif) put_exif(png, options.orientation);
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

}  // namespace

PngSample make_png(const PngOptions& options) {
  Source source{options, [&](int x, int y, int c) { return sample_at(options, x, y, c); }, {}};
  if (options.color == PngColor::kPalette) {
    for (unsigned i = 0; i < 1U << options.depth; ++i) {
      const auto [red, green, blue] = palette_entry(i);
      source.palette.push_back({red, green, blue});
    }
  }
  PngSample sample;
  sample.bytes = write_png(source);
  sample.pixels.resize(options.width, options.height);
  for (int y = 0; y < options.height; ++y) {
    for (int x = 0; x < options.width; ++x) fill_pixel(options, x, y, sample.pixels.row(y) + 3 * x);
  }
  return sample;
}

std::vector<std::byte> encode_png(const Image& image, PngOptions options) {
  options.width = image.width;
  options.height = image.height;
  const auto sample = [&](int x, int y, int channel) { return sample_of(image, options, x, y, channel); };
  return write_png({options, sample, color_cube()});
}

std::vector<std::size_t> chunks_of(const std::vector<std::byte>& png) {
  std::vector<std::size_t> offsets;
  for (std::size_t at = 8; at < png.size();) {
    offsets.push_back(at);
    at += 12 + png_get_uint_32(reinterpret_cast<png_const_bytep>(png.data() + at));
  }
  return offsets;
}

void seal_chunk(std::vector<std::byte>& png, std::size_t offset) {
  auto* chunk = reinterpret_cast<png_bytep>(png.data() + offset);
  const png_uint_32 size = png_get_uint_32(chunk);
  png_save_uint_32(chunk + 8 + size, static_cast<png_uint_32>(crc32(0, chunk + 4, size + 4)));
}

}  // namespace mn::data

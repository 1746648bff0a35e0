#include "tests/image/jpeg_samples.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>

// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>

namespace mn::data {
namespace {

J_COLOR_SPACE stored_as(Color color) {
  switch (color) {
    case Color::kGray:
      return JCS_GRAYSCALE;
    case Color::kRgb:
      return JCS_RGB;
    case Color::kCmyk:
      return JCS_CMYK;
    case Color::kYcck:
      return JCS_YCCK;
    default:
      return JCS_YCbCr;
  }
}

/// APP1 with a TIFF directory of one entry, the orientation.
std::vector<unsigned char> exif_of(int orientation, bool big_endian) {
  std::vector<unsigned char> bytes = {'E', 'x', 'i', 'f', 0, 0};
  const auto put = [&](unsigned value, int size) {
    for (int i = 0; i < size; ++i) bytes.push_back(value >> 8 * (big_endian ? size - 1 - i : i) & 0xFF);
  };
  bytes.insert(bytes.end(), 2, big_endian ? 'M' : 'I');
  put(42, 2);
  put(8, 4);
  put(1, 2);
  put(0x0112, 2);
  put(3, 2);
  put(1, 4);
  put(static_cast<unsigned>(orientation), 2);
  put(0, 2);
  put(0, 4);
  return bytes;
}

/// Adobe's inverted ink, with all of the gray in K.
void rgb_to_inverted_cmyk(const std::uint8_t* rgb, int pixels, std::vector<std::uint8_t>& row) {
  row.resize(4 * static_cast<std::size_t>(pixels));
  for (int i = 0; i < pixels; ++i) {
    const std::uint8_t* p = rgb + 3 * i;
    const int white = std::max({1, int{p[0]}, int{p[1]}, int{p[2]}});
    for (int c = 0; c < 3; ++c) row[4 * i + c] = static_cast<std::uint8_t>((p[c] * 255 + white / 2) / white);
    row[4 * i + 3] = static_cast<std::uint8_t>(white);
  }
}

void configure(jpeg_compress_struct& info, const Image& image, const JpegOptions& options) {
  const bool ink = options.color == Color::kCmyk || options.color == Color::kYcck;
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = ink ? 4 : 3;
  info.in_color_space = ink ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, stored_as(options.color));
  jpeg_set_quality(&info, options.quality, TRUE);
  if (options.color == Color::kYcc) {
    info.comp_info[0].h_samp_factor = options.horizontal;
    info.comp_info[0].v_samp_factor = options.vertical;
  }
  info.restart_in_rows = options.restart_rows;
  if (ink) info.write_Adobe_marker = options.adobe_marker ? TRUE : FALSE;
  if (options.progressive) jpeg_simple_progression(&info);
}

}  // namespace

Image draw_image(int width, int height) {
  Image image;
  image.resize(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double ripple = 40 * std::sin(0.7 * x) * std::cos(0.45 * y);
      const std::array<double, 3> color = {200.0 * x / width + 30, 200.0 * y / height + 30,
                                           200.0 * (x + y) / (width + height) + 30};
      for (int c = 0; c < 3; ++c) {
        image.row(y)[3 * x + c] = static_cast<std::uint8_t>(std::fmin(255, std::fmax(0, color[c] + ripple)));
      }
    }
  }
  return image;
}

std::vector<std::byte> encode_jpeg(const Image& image, const JpegOptions& options) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &data, &size);
  configure(info, image, options);
  jpeg_start_compress(&info, TRUE);
  if (options.orientation != 0) {
    const auto exif = exif_of(options.orientation, options.big_endian);
    jpeg_write_marker(&info, JPEG_APP0 + 1, exif.data(), static_cast<unsigned>(exif.size()));
  }
  std::vector<std::uint8_t> row;
  for (int y = 0; y < image.height; ++y) {
    row.assign(image.row(y), image.row(y) + 3 * image.width);
    if (info.input_components == 4) rgb_to_inverted_cmyk(image.row(y), image.width, row);
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&info, &pointer, 1);
  }
  jpeg_finish_compress(&info);
  const auto bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> jpeg(bytes.begin(), bytes.end());
  jpeg_destroy_compress(&info);
  std::free(data);
  return jpeg;
}

}  // namespace mn::data

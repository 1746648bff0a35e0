#include <mn/image/image_decoder.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/file_kind.hpp>
#include <mn/image/format_decoder.hpp>
#include <mn/image/orientation.hpp>

namespace mn::data {
namespace {

using namespace std::string_view_literals;

/// WebP is missing here, because is_webp() recognizes it.
constexpr std::pair<std::string_view, ImageFormat> kMagics[] = {{"\xFF\xD8\xFF"sv, ImageFormat::kJpeg},
                                                                {"\x89PNG"sv, ImageFormat::kPng},
                                                                {"II*\0"sv, ImageFormat::kTiff},
                                                                {"MM\0*"sv, ImageFormat::kTiff},
                                                                {"II+\0"sv, ImageFormat::kTiff},
                                                                {"MM\0+"sv, ImageFormat::kTiff},
                                                                {"BM"sv, ImageFormat::kBmp},
                                                                {"P5"sv, ImageFormat::kPnm},
                                                                {"P6"sv, ImageFormat::kPnm}};

bool is_webp(std::string_view bytes) { return bytes.starts_with("RIFF"sv) && bytes.substr(0, 12).ends_with("WEBP"sv); }

std::string_view name_of(ImageFormat format) {
  constexpr std::string_view kNames[] = {"JPEG", "PNG", "WebP", "TIFF", "BMP", "PPM or PGM"};
  return kNames[static_cast<std::size_t>(format)];
}

/// The name of a format that mn cannot decode, by the first bytes. Empty if no format has these first bytes.
std::string_view name_other_image(std::string_view bytes) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {{"GIF8"sv, "GIF"sv},
                                                                       {"\0\0\0\x0CjP  "sv, "JPEG 2000"sv},
                                                                       {"\xFF\x0A"sv, "JPEG XL"sv},
                                                                       {"P1"sv, "PBM in letters"sv},
                                                                       {"P2"sv, "PGM in letters"sv},
                                                                       {"P3"sv, "PPM in letters"sv},
                                                                       {"P4"sv, "PBM"sv},
                                                                       {"P7"sv, "PAM"sv}};
  for (const auto& [magic, name] : kOthers) {
    if (bytes.starts_with(magic)) return name;
  }
  const std::string_view brand = bytes.substr(0, 12);
  if (brand.ends_with("ftypavif"sv)) return "AVIF";
  if (brand.ends_with("ftypheic"sv)) return "HEIC";
  return {};
}

[[noreturn]] void reject_format(std::string_view bytes) {
  const std::string what = "not a JPEG, PNG, WebP, TIFF, BMP, PPM or PGM";
  std::string_view name = name_other_image(bytes);
  if (const std::string kind = but_kind_of_file(bytes); name.empty() && !kind.empty()) throw DataError(what + kind);
  if (name.empty()) name = bytes.empty() ? "an empty file" : "an unknown format";
  throw DataError(what + " but " + std::string(name) + ": convert it to one of them, or leave it out");
}

ImageFormat format_of(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const auto& [magic, format] : kMagics) {
    if (text.starts_with(magic)) return format;
  }
  if (is_webp(text)) return ImageFormat::kWebp;
  reject_format(text);
}

void check_size(const ImageHeader& header, std::int64_t max_pixels) {
  const std::string what = std::string(name_of(header.format)) + " of " + std::to_string(header.width) + " × " +
                           std::to_string(header.height) + " pixels; at most ";
  if (std::max(header.width, header.height) > kMaxImageSide) {
    throw DataError(what + std::to_string(kMaxImageSide) + " a side are decoded");
  }
  if (std::int64_t{header.width} * header.height > max_pixels) {
    throw DataError(what + std::to_string(max_pixels) + " are decoded");
  }
}

void check_inside(const Region& region, const ImageHeader& header) {
  if (region.x < 0 || region.y < 0 || region.width < 1 || region.height < 1 || region.x + region.width > header.width ||
      region.y + region.height > header.height) {
    throw ArgumentError("a region outside of the image");
  }
}

}  // namespace

ImageDecoder::ImageDecoder(std::int64_t max_pixels)
    : max_pixels_(max_pixels), decoders_{make_jpeg_decoder(), make_png_decoder(), make_webp_decoder(),
                                         make_tiff_decoder(), make_bmp_decoder(), make_pnm_decoder()} {}
ImageDecoder::~ImageDecoder() = default;

const ImageHeader& ImageDecoder::open(std::span<const std::byte> bytes) {
  opened_ = false;
  header_ = decoder_of(format_of(bytes)).open(bytes);
  check_size(header_, max_pixels_);
  if (orientation_of(header_.orientation).transposed) std::swap(header_.width, header_.height);
  opened_ = true;
  return header_;
}

Box ImageDecoder::decode(const Region& region, int min_width, int min_height, Image& out) {
  // libpng's and libtiff's objects do not outlive the first decode().
  if (!std::exchange(opened_, false)) throw ArgumentError("decode() without open()");
  check_inside(region, header_);
  FormatDecoder& decoder = decoder_of(header_.format);
  if (header_.orientation == 1) return decoder.decode(region, min_width, min_height, out);
  const Orientation how = orientation_of(header_.orientation);
  int width = header_.width;
  int height = header_.height;
  if (how.transposed) {
    std::swap(width, height);
    std::swap(min_width, min_height);
  }
  const Box box = decoder.decode(stored_region(region, how, width, height), min_width, min_height, turned_);
  make_upright(turned_, how, out);
  return upright_box(box, how, turned_.width, turned_.height);
}

Image decode_image(std::span<const std::byte> bytes) {
  ImageDecoder decoder;
  const ImageHeader& header = decoder.open(bytes);
  Image image;
  (void)decoder.decode({0, 0, header.width, header.height}, header.width, header.height, image);
  return image;
}

}  // namespace mn::data

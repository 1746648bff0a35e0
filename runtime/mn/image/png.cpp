// Decodes PNGs of every color type and depth by libpng, interlaced or not.
//
// Pixels equal Pillow's convert("RGB"), and so torchvision's ImageFolder: transparency is dropped, not blended; gamma,
// profiles and significant bits are ignored; 16-bit values keep the high 8 bits. Only gray of 16 bits differs: Pillow
// clips at 255 and leaves most images white.
//
// (1) A wrong checksum anywhere is an error, even in chunks that do not concern the pixels.
// (2) Memory is bounded by the image's size: texts, profiles and unknown chunks are skipped, so they cannot inflate.
// (3) After an error the decoder can be used for the next image: libpng's objects live only from open() to the end of
//     decode().
//
// Cost: all rows are inflated, because PNG has no random access.
// Source: libpng's manual; PNG specification, third edition (W3C 2025), for eXIf.
#include <mn/image/format_decoder.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include <png.h>

#include <mn/core/error.hpp>
#include <mn/image/c_jump.hpp>
#include <mn/image/exif.hpp>

namespace mn::data {
namespace {

/// Limit for chunks other than IDAT (pixels). A palette has 768 bytes; chunks that the pixels do not need are skipped.
constexpr png_alloc_size_t kMaxChunkBytes = 8 << 20;

void on_error(png_structp png, png_const_charp message) { static_cast<CJump*>(png_get_error_ptr(png))->leave(message); }

void on_warning(png_structp, png_const_charp) {}  // without it libpng would print warnings

void read_bytes(png_structp png, png_bytep to, std::size_t size) {
  auto& rest = *static_cast<std::span<const std::byte>*>(png_get_io_ptr(png));
  if (size > rest.size()) png_error(png, "it ends too early");
  std::memcpy(to, rest.data(), size);
  rest = rest.subspan(size);
}

/// Reads the eXIf chunk without libpng, because exiftool writes it after the pixels: libpng would decode them first.
int read_orientation(std::span<const std::uint8_t> png) {
  constexpr std::size_t kSignatureBytes = 8, kFrameBytes = 12;  // a chunk's length, name and checksum
  for (auto rest = png.subspan(std::min(kSignatureBytes, png.size())); rest.size() >= kFrameBytes;) {
    const std::size_t length = png_get_uint_32(rest.data());
    if (length > rest.size() - kFrameBytes) break;
    if (std::memcmp(rest.data() + 4, "eXIf", 4) == 0) return read_tiff_orientation(rest.subspan(8, length));
    rest = rest.subspan(kFrameBytes + length);
  }
  return 1;
}

int components_of(png_const_structp png, png_const_infop info) {
  constexpr int kPaletteComponents = 3;
  const bool has_palette = png_get_color_type(png, info) == PNG_COLOR_TYPE_PALETTE;
  return has_palette ? kPaletteComponents : png_get_channels(png, info);
}

void ask_for_rgb(png_structp png) {
  png_set_palette_to_rgb(png);
  png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_16(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
}

class PngDecoder final : public FormatDecoder {
 public:
  ~PngDecoder() override { close(); }

  const ImageHeader& open(std::span<const std::byte> bytes) override {
    close();
    rest_ = bytes;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &jump_, on_error, on_warning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) throw DataError("cannot start libpng " PNG_LIBPNG_VER_STRING);
    if (!guarded(jump_, [this] { read_header(); })) fail();
    header_.format = ImageFormat::kPng;
    header_.width = static_cast<int>(png_get_image_width(png_, info_));
    header_.height = static_cast<int>(png_get_image_height(png_, info_));
    header_.components = components_of(png_, info_);
    header_.bits = std::max<int>(png_get_bit_depth(png_, info_), 8);
    header_.orientation = read_orientation({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    return header_;
  }

  Box decode(const Region& region, int, int, Image& out) override {
    if (!guarded(jump_, [this] { start(); })) fail();
    if (png_get_rowbytes(png_, info_) != std::size_t{3} * header_.width) throw DataError("damaged PNG: not RGB");
    out.resize(header_.width, header_.height);
    if (!guarded(jump_, [&] { read_rows(out); })) fail();
    close();
    return to_box(region);
  }

 private:
  [[noreturn]] void fail() {
    close();
    throw DataError(std::string("damaged PNG: ") + jump_.message);
  }

  void close() { png_destroy_read_struct(&png_, &info_, nullptr); }

  void read_header() {
    png_set_read_fn(png_, &rest_, read_bytes);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // ImageDecoder's limits have clearer messages
    png_set_chunk_malloc_max(png_, kMaxChunkBytes);
    png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    // −1: all chunks that the pixels do not need are skipped, because texts and profiles could inflate to gigabytes.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
  }

  void start() {
    ask_for_rgb(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
  }

  void read_rows(Image& out) {
    for (int pass = 0; pass < passes_; ++pass) {
      for (int y = 0; y < out.height; ++y) png_read_row(png_, out.row(y), nullptr);
    }
    png_read_end(png_, nullptr);
  }

  CJump jump_ = {};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const std::byte> rest_;  // bytes that libpng has not read yet
  int passes_ = 1;
  ImageHeader header_;
};

}  // namespace

std::unique_ptr<FormatDecoder> make_png_decoder() { return std::make_unique<PngDecoder>(); }

}  // namespace mn::data

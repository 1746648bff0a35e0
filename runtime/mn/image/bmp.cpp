// Decodes BMPs: palettes of 1, 4 and 8 bits, and colors of 16, 24 and 32 bits, with or without masks, uncompressed.
// Pixels equal Pillow's convert("RGB"): alpha is dropped, and a color value v becomes 255 v / m, rounded down, where m
// is the largest value that fits into the color's bits.
//
// Only the region's pixels are read.
// Source: Microsoft's "Bitmap Storage"; Pillow's BmpImagePlugin.py and Unpack.c.
#include <mn/image/format_decoder.hpp>

#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include <mn/core/error.hpp>

namespace mn::data {
namespace {

constexpr std::size_t kFileHeaderBytes = 14;
constexpr std::uint32_t kCoreHeaderBytes = 12;  // OS/2's header: 16-bit sizes, palettes of 3 bytes a color
constexpr std::uint32_t kInfoHeaderBytes = 40;

[[noreturn]] void damaged(const std::string& what) { throw DataError("damaged BMP: " + what); }

[[noreturn]] void not_decoded(const std::string& what) {
  throw DataError("a BMP " + what + ", which is not decoded: save it as a PNG");
}

/// Little-endian. Throws DataError if the number lies beyond the file's end.
std::uint32_t number_at(std::span<const std::byte> file, std::uint64_t offset, int bytes) {
  if (offset + bytes > file.size()) damaged("it ends too early");
  std::uint32_t value = 0;
  for (int i = bytes; i-- > 0;) value = value << 8 | std::to_integer<std::uint32_t>(file[offset + i]);
  return value;
}

/// The bits of a pixel that hold one of its three colors.
struct Channel {
  std::uint32_t mask = 0;

  [[nodiscard]] std::uint8_t of(std::uint32_t pixel) const {
    if (mask == 0) return 0;
    const int shift = std::countr_zero(mask);
    return static_cast<std::uint8_t>(std::uint64_t{(pixel & mask) >> shift} * 255 / (mask >> shift));
  }
};

class BmpDecoder final : public FormatDecoder {
 public:
  const ImageHeader& open(std::span<const std::byte> bytes) override {
    bytes_ = bytes;
    info_bytes_ = number_at(bytes_, kFileHeaderBytes, 4);
    pixels_at_ = number_at(bytes_, 10, 4);
    is_core_ = info_bytes_ == kCoreHeaderBytes;
    if (!is_core_ && info_bytes_ < kInfoHeaderBytes) damaged("a header of " + std::to_string(info_bytes_) + " bytes");
    const int side_bytes = is_core_ ? 2 : 4;
    const std::size_t sides_at = kFileHeaderBytes + 4;
    const std::int64_t width = static_cast<std::int32_t>(number_at(bytes_, sides_at, side_bytes));
    const std::int64_t height = static_cast<std::int32_t>(number_at(bytes_, sides_at + side_bytes, side_bytes));
    if (width < 1 || height == 0 || height == INT32_MIN) damaged("it has no width or height");
    is_top_down_ = height < 0;
    bits_ = number_at(bytes_, sides_at + 2 * side_bytes + 2, 2);
    header_ = {.format = ImageFormat::kBmp,
               .width = static_cast<int>(width),
               .height = static_cast<int>(is_top_down_ ? -height : height),
               .components = 3};
    read_colors(is_core_ ? 0 : number_at(bytes_, kFileHeaderBytes + 16, 4));
    return header_;
  }

  Box decode(const Region& region, int, int, Image& out) override {
    if (pixels_at_ + stride() * header_.height > bytes_.size()) damaged("it ends too early");
    out.resize(region.width, region.height);
    for (int y = 0; y < region.height; ++y) {
      const int row = is_top_down_ ? region.y + y : header_.height - 1 - region.y - y;
      decode_row(pixels_at_ + stride() * row, region.x, out.row(y), region.width);
    }
    return {0, 0, double(region.width), double(region.height)};
  }

 private:
  /// Bytes of a row, a multiple of 4.
  [[nodiscard]] std::uint64_t stride() const { return (std::uint64_t{bits_} * header_.width + 31) / 32 * 4; }

  void read_colors(std::uint32_t compression) {
    enum : std::uint32_t { kNone = 0, kRle8 = 1, kRle4 = 2, kMasks = 3, kMasksAndAlpha = 6 };
    if (compression == kRle8 || compression == kRle4) not_decoded("compressed by RLE");
    const bool has_masks = compression == kMasks || compression == kMasksAndAlpha;
    if (compression != kNone && !has_masks) not_decoded("compressed in the way " + std::to_string(compression));
    if (bits_ == 1 || bits_ == 4 || bits_ == 8) return read_palette();
    if (bits_ != 16 && bits_ != 24 && bits_ != 32) not_decoded("of " + std::to_string(bits_) + " bits a pixel");
    constexpr Channel kMasks16[] = {{0x7C00}, {0x3E0}, {0x1F}}, kMasks32[] = {{0xFF0000}, {0xFF00}, {0xFF}};
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      channels_[c] = bits_ == 16 ? kMasks16[c] : kMasks32[c];
      // The masks follow a header of 40 bytes, or lie at the same offset inside a longer header.
      if (has_masks && bits_ != 24)
        channels_[c].mask = number_at(bytes_, kFileHeaderBytes + kInfoHeaderBytes + 4 * c, 4);
    }
  }

  void read_palette() {
    const std::uint32_t in_file = is_core_ ? 0 : number_at(bytes_, kFileHeaderBytes + 32, 4);
    const std::uint32_t most = 1U << bits_;
    if (in_file > most) damaged("a palette of " + std::to_string(in_file) + " colors");
    const int color_bytes = is_core_ ? 3 : 4;
    palette_ = {};
    for (std::uint32_t i = 0; i < (in_file == 0 ? most : in_file); ++i) {
      palette_[i] =
          number_at(bytes_, std::uint64_t{kFileHeaderBytes} + info_bytes_ + std::uint64_t{i} * color_bytes, 3);
    }
  }

  void decode_row(std::uint64_t at, int first, std::uint8_t* to, int count) const {
    for (int x = first; x < first + count; ++x, to += 3) {
      if (bits_ > 8) {
        const std::uint32_t pixel = number_at(bytes_, at + std::uint64_t{bits_} / 8 * x, static_cast<int>(bits_ / 8));
        for (std::size_t c = 0; c < channels_.size(); ++c) to[c] = channels_[c].of(pixel);
        continue;
      }
      const unsigned bit = bits_ * static_cast<unsigned>(x);
      const unsigned byte = std::to_integer<unsigned>(bytes_[at + bit / 8]);
      const std::uint32_t color = palette_[byte >> (8 - bits_ - bit % 8) & ((1U << bits_) - 1)];
      to[0] = static_cast<std::uint8_t>(color >> 16);
      to[1] = static_cast<std::uint8_t>(color >> 8);
      to[2] = static_cast<std::uint8_t>(color);
    }
  }

  std::span<const std::byte> bytes_;
  ImageHeader header_;
  std::uint32_t info_bytes_ = 0;
  std::uint64_t pixels_at_ = 0;
  unsigned bits_ = 0;  // bits of a pixel
  bool is_core_ = false;
  bool is_top_down_ = false;
  std::array<Channel, 3> channels_;              // red, green, blue
  std::array<std::uint32_t, 256> palette_ = {};  // 0xRRGGBB; colors that the file lacks are black
};

}  // namespace

std::unique_ptr<FormatDecoder> make_bmp_decoder() { return std::make_unique<BmpDecoder>(); }

}  // namespace mn::data

// Decodes the first image of TIFFs and BigTIFFs by libtiff: gray, color, palette, CMYK, YCbCr or Lab, with up to 16
// bits a value, uncompressed or compressed by LZW, Deflate, PackBits, JPEG or CCITT.
//
// Uses libtiff's interface for RGBA, which handles all kinds of TIFF, but not its treatment of alpha and orientation:
// alpha is dropped, and ImageDecoder turns the image. 16-bit values keep the high 8 bits.
//
// (1) Memory is bounded, because libtiff allocates at most kMaxBytes at once.
// (2) A damaged strip is an error, although libtiff by itself would go on.
// (3) Only common compressions are decoded, so no file can reach libtiff's rarely used codecs.
// (4) After an error the decoder can be used for the next image: libtiff's objects live only from open() to the end of
//     decode().
// (5) libtiff's functions that convert tiles are called for one row at a time, because at the image's right edge,
//     putgreytile and put16bitbwtile (4.5 to 4.7) skip bytes instead of pixels.
//
// Source: libtiff 4.5's manual (TIFFClientOpen, TIFFRGBAImage, TIFFOpenOptions); TIFF 6.0.
#include <mn/image/format_decoder.hpp>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <tiffio.h>

#include <mn/core/error.hpp>

namespace mn::data {
namespace {

constexpr tmsize_t kMaxBytes = tmsize_t{1} << 29;

constexpr std::uint16_t kCompressions[] = {COMPRESSION_NONE,          COMPRESSION_CCITTRLE, COMPRESSION_CCITTFAX3,
                                           COMPRESSION_CCITTFAX4,     COMPRESSION_LZW,      COMPRESSION_JPEG,
                                           COMPRESSION_ADOBE_DEFLATE, COMPRESSION_PACKBITS, COMPRESSION_DEFLATE};

/// A file in memory, for libtiff.
struct TiffSource {
  std::span<const std::byte> bytes;
  std::uint64_t at = 0;
};

TiffSource& source_of(thandle_t handle) { return *static_cast<TiffSource*>(handle); }

tmsize_t read_source(thandle_t handle, void* to, tmsize_t size) {
  TiffSource& source = source_of(handle);
  const std::uint64_t left = source.at < source.bytes.size() ? source.bytes.size() - source.at : 0;
  const auto count = static_cast<std::size_t>(std::min(static_cast<std::uint64_t>(std::max<tmsize_t>(size, 0)), left));
  if (count > 0) std::memcpy(to, source.bytes.data() + source.at, count);
  source.at += count;
  return static_cast<tmsize_t>(count);
}

tmsize_t write_nothing(thandle_t, void*, tmsize_t) { return 0; }

toff_t seek_source(thandle_t handle, toff_t offset, int from) {
  TiffSource& source = source_of(handle);
  if (from == SEEK_SET) source.at = offset;
  if (from == SEEK_CUR) source.at += offset;
  if (from == SEEK_END) source.at = source.bytes.size() + offset;
  return source.at;
}

int close_nothing(thandle_t) { return 0; }

toff_t size_of_source(thandle_t handle) { return source_of(handle).bytes.size(); }

/// Without this function, libtiff 4.5.0 rejects uncompressed tiles.
int map_source(thandle_t handle, void** base, toff_t* size) {
  const TiffSource& source = source_of(handle);
  *base = const_cast<std::byte*>(source.bytes.data());  // in the mode "r" libtiff only reads
  *size = source.bytes.size();
  return 1;
}

void unmap_nothing(thandle_t, void*, toff_t) {}

/// libtiff's first error. Later errors follow from it.
using TiffMessage = std::array<char, 200>;

int keep_error(TIFF*, void* user, const char*, const char* format, std::va_list arguments) {
  auto& text = *static_cast<TiffMessage*>(user);
  if (text[0] == '\0') std::vsnprintf(text.data(), text.size(), format, arguments);
  return 1;
}

int ignore_warning(TIFF*, void*, const char*, const char*, std::va_list) { return 1; }

TIFF* open_source(TiffSource& source, TiffMessage& message) {
  TIFFOpenOptions* options = TIFFOpenOptionsAlloc();
  if (options == nullptr) return nullptr;
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, kMaxBytes);
  TIFFOpenOptionsSetErrorHandlerExtR(options, keep_error, &message);
  TIFFOpenOptionsSetWarningHandlerExtR(options, ignore_warning, nullptr);
  TIFF* tiff = TIFFClientOpenExt("image", "r", &source, read_source, write_nothing, seek_source, close_nothing,
                                 size_of_source, map_source, unmap_nothing, options);
  TIFFOpenOptionsFree(options);
  return tiff;
}

/// An image that libtiff converts one row at a time, because it skips wrongly at the right edge.
struct RowImage : TIFFRGBAImage {
  tileContigRoutine put_row;
};

/// libtiff calls this for each tile, to convert w × h pixels and to skip `from_skew` pixels at the end of each row.
void put_rows(TIFFRGBAImage* image, std::uint32_t* to, std::uint32_t x, std::uint32_t y, std::uint32_t w,
              std::uint32_t h, std::int32_t from_skew, std::int32_t to_skew, unsigned char* from) {
  const std::size_t bits = std::size_t{image->bitspersample} * image->samplesperpixel;
  const std::size_t row_bytes = ((w + static_cast<std::uint32_t>(from_skew)) * bits + 7) / 8;
  for (; h > 0; --h, ++y) {
    static_cast<RowImage*>(image)->put_row(image, to, x, y, w, 1, 0, 0, from);
    to += static_cast<std::ptrdiff_t>(w) + to_skew;
    from += row_bytes;
  }
}

/// Makes libtiff call put_rows(). libtiff itself converts subsampled color correctly, several rows at once.
void put_by_rows(RowImage& image) {
  if (image.isContig == 0 || image.photometric == PHOTOMETRIC_YCBCR) return;
  image.put_row = std::exchange(image.put.contig, put_rows);
}

class TiffDecoder final : public FormatDecoder {
 public:
  ~TiffDecoder() override { close(); }

  const ImageHeader& open(std::span<const std::byte> bytes) override {
    close();
    message_ = {};
    source_ = {bytes, 0};
    tiff_ = open_source(source_, message_);
    if (tiff_ == nullptr) fail();
    read_header();
    return header_;
  }

  Box decode(const Region& region, int, int, Image& out) override {
    RowImage image;
    std::array<char, 1024> why = {};
    drop_alpha();
    if (TIFFRGBAImageBegin(&image, tiff_, 1, why.data()) == 0) fail(why.data());
    keep_high_bits(image);
    put_by_rows(image);
    image.orientation = ORIENTATION_TOPLEFT;
    image.req_orientation = ORIENTATION_TOPLEFT;
    raster_.resize(std::size_t{image.width} * image.height);
    const bool read = TIFFRGBAImageGet(&image, raster_.data(), image.width, image.height) != 0;
    TIFFRGBAImageEnd(&image);
    if (!read) fail();
    out.resize(header_.width, header_.height);
    // If each channel has a separate plane, libtiff ignores that 0 means white.
    const std::uint32_t flip = image.isContig == 0 && image.photometric == PHOTOMETRIC_MINISWHITE ? ~0U : 0;
    std::uint8_t* to = out.pixels.data();
    for (const std::uint32_t pixel : raster_) {
      *to++ = static_cast<std::uint8_t>(TIFFGetR(pixel ^ flip));
      *to++ = static_cast<std::uint8_t>(TIFFGetG(pixel ^ flip));
      *to++ = static_cast<std::uint8_t>(TIFFGetB(pixel ^ flip));
    }
    close();
    return to_box(region);
  }

 private:
  [[noreturn]] void fail(const char* why = "") {
    close();
    const char* first = message_[0] != '\0' ? message_.data() : why;
    throw DataError(std::string("damaged TIFF, or of a kind that is not decoded: ") +
                    (*first != '\0' ? first : "libtiff cannot read it"));
  }

  void close() {
    if (tiff_ != nullptr) TIFFClose(std::exchange(tiff_, nullptr));
  }

  template <class Number>
  [[nodiscard]] Number number(std::uint32_t tag) const {
    Number value = 0;
    (void)TIFFGetFieldDefaulted(tiff_, tag, &value);
    return value;
  }

  void read_header() {
    const auto width = number<std::uint32_t>(TIFFTAG_IMAGEWIDTH);
    const auto height = number<std::uint32_t>(TIFFTAG_IMAGELENGTH);
    constexpr std::uint32_t kMaxSide = 0x7FFFFFFF;
    if (width == 0 || height == 0 || std::max(width, height) > kMaxSide) fail("it has no width or height");
    const auto compression = number<std::uint16_t>(TIFFTAG_COMPRESSION);
    if (std::ranges::find(kCompressions, compression) == std::end(kCompressions)) {
      fail(("it is compressed in the way " + std::to_string(compression)).c_str());
    }
    header_.format = ImageFormat::kTiff;
    header_.width = static_cast<int>(width);
    header_.height = static_cast<int>(height);
    const auto sample_format = number<std::uint16_t>(TIFFTAG_SAMPLEFORMAT);
    if (sample_format != SAMPLEFORMAT_UINT && sample_format != SAMPLEFORMAT_VOID) {
      fail("its samples are signed or not whole numbers: write them as uint8 or uint16");
    }
    const bool palette = number<std::uint16_t>(TIFFTAG_PHOTOMETRIC) == PHOTOMETRIC_PALETTE;
    header_.components = palette ? 3 : number<std::uint16_t>(TIFFTAG_SAMPLESPERPIXEL);
    header_.bits = std::max<int>(number<std::uint16_t>(TIFFTAG_BITSPERSAMPLE), 8);
    const auto orientation = number<std::uint16_t>(TIFFTAG_ORIENTATION);
    header_.orientation = orientation >= 1 && orientation <= 8 ? orientation : 1;
  }

  /// Declares alpha associated, in memory only: libtiff would turn transparent pixels with unassociated alpha black.
  void drop_alpha() {
    std::uint16_t count = 0;
    std::uint16_t* kinds = nullptr;
    (void)TIFFGetFieldDefaulted(tiff_, TIFFTAG_EXTRASAMPLES, &count, &kinds);
    if (count == 0 || kinds[0] != EXTRASAMPLE_UNASSALPHA) return;
    std::vector<std::uint16_t> plain(kinds, kinds + count);
    plain[0] = EXTRASAMPLE_ASSOCALPHA;
    (void)TIFFSetField(tiff_, TIFFTAG_EXTRASAMPLES, count, plain.data());
  }

  /// By default libtiff rounds.
  static void keep_high_bits(TIFFRGBAImage& image) {
    if (image.Bitdepth16To8 == nullptr) return;
    for (int value = 0; value < 1 << 16; ++value) image.Bitdepth16To8[value] = static_cast<std::uint8_t>(value >> 8);
  }

  TIFF* tiff_ = nullptr;
  TiffSource source_;
  TiffMessage message_ = {};
  std::vector<std::uint32_t> raster_;
  ImageHeader header_;
};

}  // namespace

std::unique_ptr<FormatDecoder> make_tiff_decoder() { return std::make_unique<TiffDecoder>(); }

}  // namespace mn::data

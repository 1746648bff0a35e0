#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// jerror.h takes its list of messages from what jpeglib.h defines.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <mn/core/error.hpp>
#include <mn/data/exif.hpp>
#include <mn/data/jpeg.hpp>

namespace mn::data {
namespace {

/// A progressive picture can carry any number of scans over all of it: a few kilobytes would decode for minutes.
constexpr int kMaxScans = 200;

/// Columns beside the wanted ones: interpolation of the colour at a cut reads its neighbours.
constexpr int kMarginColumns = 2;

/// libjpeg's errors end in a longjmp to the latest guarded() call.
struct ErrorManager {
  jpeg_error_mgr base;  // first, as libjpeg knows only a pointer to it
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

ErrorManager& manager_of(j_common_ptr info) { return *reinterpret_cast<ErrorManager*>(info->err); }

[[noreturn]] void leave(j_common_ptr info) {
  ErrorManager& manager = manager_of(info);
  manager.base.format_message(info, manager.message);
  std::longjmp(manager.jump, 1);
}

/// Warnings after which libjpeg makes pixels up.
bool loses_data(int code) {
  switch (code) {
    case JWRN_ARITH_BAD_CODE:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
    case JWRN_NOT_SEQUENTIAL:
      return true;
    default:
      return false;
  }
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && loses_data(info->err->msg_code)) leave(info);
}

void limit_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  ErrorManager& manager = manager_of(info);
  std::snprintf(manager.message, sizeof manager.message, "it has more than %d scans", kMaxScans);
  std::longjmp(manager.jump, 1);
}

/// Runs `step`; false if libjpeg failed in it. `step` is left without unwinding, so it must own nothing.
template <class Step>
[[nodiscard]] bool guarded(ErrorManager& manager, const Step& step) {
  if (setjmp(manager.jump) != 0) return false;
  step();
  return true;
}

std::string_view format_of(std::string_view bytes) {
  using namespace std::string_view_literals;
  if (bytes.starts_with("\xFF\xD8\xFF"sv)) return "JPEG";
  if (bytes.starts_with("\x89PNG"sv)) return "PNG";
  if (bytes.starts_with("GIF8"sv)) return "GIF";
  if (bytes.starts_with("BM"sv)) return "BMP";
  if (bytes.starts_with("RIFF"sv) && bytes.substr(0, 12).ends_with("WEBP"sv)) return "WebP";
  if (bytes.starts_with("II*\0"sv) || bytes.starts_with("MM\0*"sv)) return "TIFF";
  if (bytes.starts_with("\0\0\0\x0CjP  "sv)) return "JPEG 2000";
  return bytes.empty() ? "empty" : "unknown format";
}

/// The largest power-of-two reduction that keeps the region at least so large.
int choose_reduction(const Region& region, int min_width, int min_height) {
  int reduction = 8;
  while (reduction > 1 && (region.width < min_width * reduction || region.height < min_height * reduction)) {
    reduction /= 2;
  }
  return reduction;
}

/// Where a region of the upright picture lies in the stored one of `width` × `height`.
Region stored_region(Region region, const Orientation& how, int width, int height) {
  if (how.transposed) {
    std::swap(region.x, region.y);
    std::swap(region.width, region.height);
  }
  if (how.mirrored_x) region.x = width - region.x - region.width;
  if (how.mirrored_y) region.y = height - region.y - region.height;
  return region;
}

/// The way back for a box in a decoded image.
Box upright_box(Box box, const Orientation& how, int width, int height) {
  if (how.mirrored_x) box.x = width - box.x - box.width;
  if (how.mirrored_y) box.y = height - box.y - box.height;
  if (how.transposed) {
    std::swap(box.x, box.y);
    std::swap(box.width, box.height);
  }
  return box;
}

void make_upright(const Image& stored, const Orientation& how, Image& out) {
  out.resize(how.transposed ? stored.height : stored.width, how.transposed ? stored.width : stored.height);
  for (int y = 0; y < out.height; ++y) {
    std::uint8_t* to = out.row(y);
    for (int x = 0; x < out.width; ++x, to += 3) {
      const int column = how.transposed ? y : x;
      const int line = how.transposed ? x : y;
      const int from_x = how.mirrored_x ? stored.width - 1 - column : column;
      const int from_y = how.mirrored_y ? stored.height - 1 - line : line;
      std::copy_n(stored.row(from_y) + std::ptrdiff_t{3} * from_x, 3, to);
    }
  }
}

/// Adobe's programs, the usual source of CMYK JPEGs, store ink as 255 − value.
void cmyk_to_rgb(const std::uint8_t* cmyk, int pixels, bool inverted, std::uint8_t* rgb) {
  const unsigned flip = inverted ? 0 : 255;
  for (int i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    for (int c = 0; c < 3; ++c) rgb[c] = static_cast<std::uint8_t>(((cmyk[c] ^ flip) * (cmyk[3] ^ flip) + 127) / 255);
  }
}

}  // namespace

class JpegDecoder::Impl {
 public:
  Impl() {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = leave;
    errors_.base.emit_message = on_message;
    if (!guarded(errors_, [this] { jpeg_create_decompress(&info_); })) fail("cannot start libjpeg");
    progress_.progress_monitor = limit_scans;
  }
  ~Impl() { jpeg_destroy_decompress(&info_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const JpegHeader& open(std::span<const std::byte> bytes) {
    jpeg_abort_decompress(&info_);
    const std::string_view format = format_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (format != "JPEG") throw DataError("not a JPEG: " + std::string(format));
    const bool read = guarded(errors_, [&] {
      info_.progress = &progress_;
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xFFFF);
      (void)jpeg_read_header(&info_, TRUE);
    });
    if (!read) fail("damaged JPEG");
    if (std::int64_t{info_.image_width} * info_.image_height > kMaxJpegPixels) {
      throw DataError("JPEG of " + std::to_string(info_.image_width) + " × " + std::to_string(info_.image_height) +
                      " pixels; at most " + std::to_string(kMaxJpegPixels) + " are decoded");
    }
    fill_header();
    return header_;
  }

  Box decode(const Region& region, int min_width, int min_height, Image& out) {
    const Orientation how = orientation_of(header_.orientation);
    const int width = static_cast<int>(info_.image_width);
    const int height = static_cast<int>(info_.image_height);
    if (how.transposed) std::swap(min_width, min_height);
    const Region wanted = stored_region(region, how, width, height);
    if (wanted.x < 0 || wanted.y < 0 || wanted.width < 1 || wanted.height < 1 || wanted.x + wanted.width > width ||
        wanted.y + wanted.height > height) {
      throw ArgumentError("a region outside of the picture");
    }
    if (header_.orientation == 1) return decode_stored(wanted, min_width, min_height, out);
    const Box box = decode_stored(wanted, min_width, min_height, turned_);
    make_upright(turned_, how, out);
    return upright_box(box, how, turned_.width, turned_.height);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw DataError(what + ": " + errors_.message); }

  void fill_header() {
    header_.orientation = 1;
    for (auto* marker = info_.marker_list; marker != nullptr && header_.orientation == 1; marker = marker->next) {
      header_.orientation = read_exif_orientation({marker->data, marker->data_length});
    }
    const bool transposed = orientation_of(header_.orientation).transposed;
    header_.width = static_cast<int>(transposed ? info_.image_height : info_.image_width);
    header_.height = static_cast<int>(transposed ? info_.image_width : info_.image_height);
    header_.components = info_.num_components;
    header_.progressive = info_.progressive_mode != FALSE;
  }

  Box decode_stored(const Region& region, int min_width, int min_height, Image& out) {
    const int reduction = choose_reduction(region, min_width, min_height);
    const int first = region.y / reduction;
    int last = 0;
    JDIMENSION x = 0;
    const bool started = guarded(errors_, [&] {
      info_.scale_num = 1;
      info_.scale_denom = static_cast<unsigned>(reduction);
      info_.out_color_space = info_.num_components == 4 ? JCS_CMYK : JCS_RGB;
      (void)jpeg_start_decompress(&info_);
      last = std::min((region.y + region.height + reduction - 1) / reduction, static_cast<int>(info_.output_height));
      x = static_cast<JDIMENSION>(std::max(region.x / reduction - kMarginColumns, 0));
      const auto end = static_cast<JDIMENSION>((region.x + region.width + reduction - 1) / reduction + kMarginColumns);
      JDIMENSION columns = std::min(end, info_.output_width) - x;
      if (columns < info_.output_width) jpeg_crop_scanline(&info_, &x, &columns);
    });
    if (!started) fail("damaged JPEG");

    out.resize(static_cast<int>(info_.output_width), last - first);
    ink_.resize(info_.num_components == 4 ? std::size_t{4} * info_.output_width : 0);
    const bool complete = guarded(errors_, [&] { read_rows(first, last, out); });
    if (!complete) fail("damaged JPEG");
    jpeg_abort_decompress(&info_);
    const double scale = 1.0 / reduction;
    return {region.x * scale - x, region.y * scale - first, region.width * scale, region.height * scale};
  }

  void read_rows(int first, int last, Image& out) {
    if (first > 0) (void)jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(first));
    for (int y = 0; y < last - first; ++y) {
      JSAMPROW row = ink_.empty() ? out.row(y) : ink_.data();
      (void)jpeg_read_scanlines(&info_, &row, 1);
      if (!ink_.empty()) cmyk_to_rgb(ink_.data(), out.width, info_.saw_Adobe_marker != FALSE, out.row(y));
    }
  }

  ErrorManager errors_ = {};
  jpeg_decompress_struct info_ = {};
  jpeg_progress_mgr progress_ = {};
  JpegHeader header_;
  std::vector<std::uint8_t> ink_;  // one row of CMYK
  Image turned_;                   // as stored, before it is made upright
};

JpegDecoder::JpegDecoder() : impl_(std::make_unique<Impl>()) {}
JpegDecoder::~JpegDecoder() = default;
JpegDecoder::JpegDecoder(JpegDecoder&&) noexcept = default;
JpegDecoder& JpegDecoder::operator=(JpegDecoder&&) noexcept = default;

const JpegHeader& JpegDecoder::open(std::span<const std::byte> bytes) { return impl_->open(bytes); }

Box JpegDecoder::decode(const Region& region, int min_width, int min_height, Image& out) {
  return impl_->decode(region, min_width, min_height, out);
}

Image decode_jpeg(std::span<const std::byte> bytes) {
  JpegDecoder decoder;
  const JpegHeader& header = decoder.open(bytes);
  Image image;
  (void)decoder.decode({0, 0, header.width, header.height}, header.width, header.height, image);
  return image;
}

}  // namespace mn::data

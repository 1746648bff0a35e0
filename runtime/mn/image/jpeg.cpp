// Decodes JPEGs by libjpeg-turbo: only the needed part of the image, at the least sufficient resolution.
//
// libjpeg scales in the transform domain, to 1/1, 1/2, 1/4 or 1/8: it computes fewer pixels of each 8 × 8 block. Rows
// above the region are only entropy-decoded, rows below it are not read, and columns beside it are left out in whole
// blocks. Gray and CMYK become RGB.
//
// (1) At 1/1 the pixels equal those of a decode of the whole image. Color is interpolated from neighbors, so a few
//     columns beside the region are decoded, too.
// (2) Every warning after which libjpeg would invent pixels is an error.
// (3) Time and memory are bounded by the image's size, because the number of scans is limited.
// (4) After an error the decoder can be used for the next image: open() aborts an unfinished decode.
//
// Source: libjpeg-turbo's libjpeg.txt ("Partial image decompression", "Decompression parameter selection").
#include <mn/image/format_decoder.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

// jerror.h needs definitions of jpeglib.h, so clang-format must not sort these two lines.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <mn/core/error.hpp>
#include <mn/image/c_jump.hpp>
#include <mn/image/exif.hpp>

namespace mn::data {
namespace {

/// Without a limit, a progressive image of a few kilobytes could take minutes to decode.
constexpr int kMaxScans = 200;

/// Columns that are also decoded on each side of the region, because interpolation of the color reads neighbors.
constexpr int kMarginColumns = 2;

struct ErrorManager {
  jpeg_error_mgr base;  // first: libjpeg holds a pointer to this member
  CJump jump;
};
static_assert(CJump::kMessageBytes >= JMSG_LENGTH_MAX);

ErrorManager& manager_of(j_common_ptr info) { return *reinterpret_cast<ErrorManager*>(info->err); }

[[noreturn]] void leave(j_common_ptr info) {
  ErrorManager& manager = manager_of(info);
  manager.base.format_message(info, manager.jump.message);
  manager.jump.leave();
}

/// Whether libjpeg invents pixels after this warning.
bool loses_data(int code) {
  constexpr int kLosses[] = {JWRN_ARITH_BAD_CODE, JWRN_HIT_MARKER,  JWRN_HUFF_BAD_CODE,
                             JWRN_JPEG_EOF,       JWRN_MUST_RESYNC, JWRN_NOT_SEQUENTIAL};
  return std::ranges::find(kLosses, code) != std::end(kLosses);
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && loses_data(info->err->msg_code)) leave(info);
}

void limit_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  CJump& jump = manager_of(info).jump;
  std::snprintf(jump.message, sizeof jump.message, "it has more than %d scans", kMaxScans);
  jump.leave();
}

/// The largest power of two, at most 8, by which the region can be shrunk to at least min_width × min_height pixels.
int choose_reduction(const Region& region, int min_width, int min_height) {
  int reduction = 8;
  while (reduction > 1 && (region.width < min_width * reduction || region.height < min_height * reduction)) {
    reduction /= 2;
  }
  return reduction;
}

/// Adobe's programs store ink inverted (255 − value). Like Pillow, mn assumes this for every file.
void cmyk_to_rgb(const std::uint8_t* cmyk, int pixels, std::uint8_t* rgb) {
  for (int i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    for (int c = 0; c < 3; ++c) rgb[c] = static_cast<std::uint8_t>((cmyk[c] * cmyk[3] + 127) / 255);
  }
}

/// Returns the kind of JPEG, if the error means that libjpeg does not support it. Empty if the data is damaged.
std::string other_kind(const jpeg_error_mgr& error) {
  const int code = error.msg_code, value = error.msg_parm.i[0];
  if (code == JERR_BAD_PRECISION) return "a JPEG of " + std::to_string(value) + " bits";
  if (code == JERR_SOF_UNSUPPORTED) return value % 4 == 3 ? "a lossless JPEG" : "a hierarchical JPEG";  // its SOF
  if (code == JERR_UNKNOWN_MARKER && value == 0xF7) return "a JPEG-LS";
  if (code == JERR_CONVERSION_NOTIMPL) return "a JPEG of colors that are neither gray, RGB, YCbCr, CMYK nor YCCK";
  return {};
}

class JpegDecoder final : public FormatDecoder {
 public:
  JpegDecoder() {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = leave;
    errors_.base.emit_message = on_message;
    if (!guarded(errors_.jump, [this] { jpeg_create_decompress(&info_); })) fail();
    progress_.progress_monitor = limit_scans;
  }
  ~JpegDecoder() override { jpeg_destroy_decompress(&info_); }

  const ImageHeader& open(std::span<const std::byte> bytes) override {
    jpeg_abort_decompress(&info_);
    const bool read = guarded(errors_.jump, [&] {
      info_.progress = &progress_;
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xFFFF);
      errors_.base.msg_code = 0;  // clears the previous image's error
      (void)jpeg_read_header(&info_, TRUE);
    });
    if (!read) fail();
    fill_header();
    return header_;
  }

  Box decode(const Region& region, int min_width, int min_height, Image& out) override {
    const int reduction = choose_reduction(region, min_width, min_height);
    const int first = region.y / reduction;
    int last = 0;
    JDIMENSION x = 0;
    const bool started = guarded(errors_.jump, [&] {
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
    if (!started) fail();

    out.resize(static_cast<int>(info_.output_width), last - first);
    ink_.resize(info_.num_components == 4 ? std::size_t{4} * info_.output_width : 0);
    const bool complete = guarded(errors_.jump, [&] { read_rows(first, last, out); });
    if (!complete) fail();
    jpeg_abort_decompress(&info_);
    const double scale = 1.0 / reduction;
    return {region.x * scale - x, region.y * scale - first, region.width * scale, region.height * scale};
  }

 private:
  [[noreturn]] void fail() const {
    const std::string kind = other_kind(errors_.base);
    if (kind.empty()) throw DataError(std::string("damaged JPEG: ") + errors_.jump.message);
    throw DataError(kind + ", which is not decoded: save it as a JPEG of 8 bits, baseline or progressive, or as a PNG");
  }

  void fill_header() {
    header_.orientation = 1;
    for (auto* marker = info_.marker_list; marker != nullptr && header_.orientation == 1; marker = marker->next) {
      header_.orientation = read_exif_orientation({marker->data, marker->data_length});
    }
    header_.width = static_cast<int>(info_.image_width);
    header_.height = static_cast<int>(info_.image_height);
    header_.components = info_.num_components;
  }

  void read_rows(int first, int last, Image& out) {
    if (first > 0) (void)jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(first));
    for (int y = 0; y < last - first; ++y) {
      JSAMPROW row = ink_.empty() ? out.row(y) : ink_.data();
      (void)jpeg_read_scanlines(&info_, &row, 1);
      if (!ink_.empty()) cmyk_to_rgb(ink_.data(), out.width, out.row(y));
    }
  }

  ErrorManager errors_ = {};
  jpeg_decompress_struct info_ = {};
  jpeg_progress_mgr progress_ = {};
  ImageHeader header_;
  std::vector<std::uint8_t> ink_;  // one row of CMYK values
};

}  // namespace

std::unique_ptr<FormatDecoder> make_jpeg_decoder() { return std::make_unique<JpegDecoder>(); }

}  // namespace mn::data

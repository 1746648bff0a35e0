#include "data/jpeg_writer.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>

#include <mn/core/error.hpp>
#include <mn/image/c_jump.hpp>

namespace mn::data {
namespace {

struct WriterErrors {
  jpeg_error_mgr base;  // first, as libjpeg has only a pointer to it
  CJump jump;
};

[[noreturn]] void leave_writer(j_common_ptr info) {
  auto& errors = *reinterpret_cast<WriterErrors*>(info->err);
  errors.base.format_message(info, errors.jump.message);
  errors.jump.leave();
}

}  // namespace

class JpegWriter::Impl {
 public:
  Impl() {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = leave_writer;
    if (!guarded(errors_.jump, [this] { jpeg_create_compress(&info_); })) fail();
  }
  ~Impl() {
    jpeg_destroy_compress(&info_);
    std::free(bytes_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::span<const std::byte> encode(const Image& image, int quality) {
    std::free(std::exchange(bytes_, nullptr));
    size_ = 0;
    if (!guarded(errors_.jump, [&] { write(image, quality); })) {
      jpeg_abort_compress(&info_);
      bytes_ = nullptr;  // libjpeg may have freed it while growing
      fail();
    }
    return std::as_bytes(std::span(bytes_, size_));
  }

 private:
  [[noreturn]] void fail() const { throw DataError(std::string("cannot encode a JPEG: ") + errors_.jump.message); }

  void write(const Image& image, int quality) {
    jpeg_mem_dest(&info_, &bytes_, &size_);
    info_.image_width = static_cast<JDIMENSION>(image.width);
    info_.image_height = static_cast<JDIMENSION>(image.height);
    info_.input_components = 3;
    info_.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info_);
    jpeg_set_quality(&info_, quality, TRUE);
    jpeg_start_compress(&info_, TRUE);
    for (int y = 0; y < image.height; ++y) {
      auto* row = const_cast<JSAMPROW>(image.row(y));  // libjpeg only reads the row
      (void)jpeg_write_scanlines(&info_, &row, 1);
    }
    jpeg_finish_compress(&info_);
  }

  WriterErrors errors_ = {};
  jpeg_compress_struct info_ = {};
  unsigned char* bytes_ = nullptr;  // malloc's, by libjpeg
  unsigned long size_ = 0;
};

JpegWriter::JpegWriter() : impl_(std::make_unique<Impl>()) {}
JpegWriter::~JpegWriter() = default;

std::span<const std::byte> JpegWriter::encode(const Image& image, int quality) { return impl_->encode(image, quality); }

}  // namespace mn::data

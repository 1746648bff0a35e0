#include "data/image_intake.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>

#include <mn/core/error.hpp>
#include <mn/image/c_jump.hpp>

namespace mn::data {
namespace {

/// The quality of resized images, on libjpeg's scale up to 100. It is high, because most images were compressed before
/// and now lose quality a second time.
constexpr int kStoredQuality = 95;
constexpr int kStoredComponents = 3;

std::array<std::uint16_t, 3> hwc_of(int height, int width, int components) {
  return {static_cast<std::uint16_t>(height), static_cast<std::uint16_t>(width),
          static_cast<std::uint16_t>(components)};
}

struct WriterErrors {
  jpeg_error_mgr base;  // first: leave_writer() casts libjpeg's pointer to `base` to WriterErrors
  CJump jump;
};

[[noreturn]] void leave_writer(j_common_ptr info) {
  auto& errors = *reinterpret_cast<WriterErrors*>(info->err);
  errors.base.format_message(info, errors.jump.message);
  errors.jump.leave();
}

}  // namespace

/// Encodes images by libjpeg-turbo as baseline JPEG with color at half the resolution (4:2:0). With one version of
/// libjpeg-turbo, equal pixels give equal bytes. Reuses its memory for the next image.
class ImageIntake::JpegWriter {
 public:
  JpegWriter() {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = leave_writer;
    if (!guarded(errors_.jump, [this] { jpeg_create_compress(&info_); })) fail();
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&info_);
    std::free(bytes_);
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  /// The returned bytes are valid until the next encode(). Throws DataError if libjpeg fails.
  std::span<const std::byte> encode(const Image& image) {
    std::free(std::exchange(bytes_, nullptr));
    size_ = 0;
    if (!guarded(errors_.jump, [&] { write(image); })) {
      jpeg_abort_compress(&info_);
      bytes_ = nullptr;  // libjpeg may have freed the buffer while it grew
      fail();
    }
    return std::as_bytes(std::span(bytes_, size_));
  }

 private:
  [[noreturn]] void fail() const { throw DataError(std::string("cannot encode a JPEG: ") + errors_.jump.message); }

  void write(const Image& image) {
    jpeg_mem_dest(&info_, &bytes_, &size_);
    info_.image_width = static_cast<JDIMENSION>(image.width);
    info_.image_height = static_cast<JDIMENSION>(image.height);
    info_.input_components = 3;
    info_.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info_);
    jpeg_set_quality(&info_, kStoredQuality, TRUE);
    jpeg_start_compress(&info_, TRUE);
    for (int y = 0; y < image.height; ++y) {
      auto* row = const_cast<JSAMPROW>(image.row(y));  // libjpeg only reads the row
      (void)jpeg_write_scanlines(&info_, &row, 1);
    }
    jpeg_finish_compress(&info_);
  }

  WriterErrors errors_ = {};
  jpeg_compress_struct info_ = {};
  unsigned char* bytes_ = nullptr;  // allocated by libjpeg with malloc()
  unsigned long size_ = 0;
};

ImageIntake::ImageIntake(const ImageOptions& options, ImageProblems& problems)
    : options_(options), problems_(problems), writer_(std::make_unique<JpegWriter>()) {}
ImageIntake::~ImageIntake() = default;

void ImageIntake::add(std::span<const std::byte> bytes, std::int32_t label, std::string_view key,
                      ShardContent& content) {
  const ImageHeader header = decoder_.open(bytes);
  if (header.bits > 8) problems_.add_deep(key);
  const bool is_longer = options_.resize > 0 && std::min(header.width, header.height) > options_.resize;
  if (is_longer) {
    const Image& image = resized(header);
    content.add_encoded(writer_->encode(image), label, hwc_of(image.height, image.width, kStoredComponents), key);
    return;
  }
  if (std::int64_t{header.width} * header.height > kMaxImagePixels) {
    throw DataError("an image of " + std::to_string(header.width) + " × " + std::to_string(header.height) +
                    " pixels; at most " + std::to_string(kMaxImagePixels) +
                    " are stored: --resize N makes larger images smaller");
  }
  // The image is stored unchanged. It is decoded as a check, because training would stop at an undecodable image.
  if (!options_.check_headers_only) (void)decoder_.decode({0, 0, header.width, header.height}, 1, 1, decoded_);
  content.add_encoded(bytes, label, hwc_of(header.height, header.width, header.components), key);
}

const Image& ImageIntake::resized(const ImageHeader& header) {
  // The decoder can shrink images cheaply to certain sizes. It takes the smallest such size that is at least the wanted
  // size; the resizer does the rest.
  const double scale = double(options_.resize) / std::min(header.width, header.height);
  const int width = std::max(options_.resize, static_cast<int>(header.width * scale + 0.5));
  const int height = std::max(options_.resize, static_cast<int>(header.height * scale + 0.5));
  const Box box = decoder_.decode({0, 0, header.width, header.height}, width, height, decoded_);
  resizer_.resize(decoded_, box, {0, 0, decoded_.width, decoded_.height}, width, height, false, small_);
  return small_;
}

ShardContent encoded_content(std::int64_t bytes) {
  constexpr std::int64_t kMaxRoom = std::int64_t{1} << 30;
  ShardContent content(labeled({.kind = FieldKind::kEncoded}));
  content.samples.columns[0].bytes.reserve(std::min(bytes, kMaxRoom));
  return content;
}

std::vector<std::string> empty_classes(const ShardTable& table) {
  const FieldSpec& field = table.spec()[1];
  std::vector<bool> seen(static_cast<std::size_t>(field.num_classes));
  for (std::size_t shard = 0; shard < table.shards().size(); ++shard) {
    const auto reader = table.open_alone(shard);
    for (std::int64_t i = 0; i < reader->size(); ++i) seen.at(static_cast<std::size_t>(label_of(*reader, i))) = true;
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (!seen[i]) names.push_back(field.class_names.empty() ? std::to_string(i) : field.class_names[i]);
  }
  return names;
}

void ImageProblems::leave_out(const std::string& what) {
  if (!skip_bad_) throw DataError(what + " (--on-error skip leaves such files out)");
  const std::lock_guard lock(mutex_);
  errors_.insert(what);
}

std::vector<std::string> ImageProblems::errors() const {
  const std::lock_guard lock(mutex_);
  return {errors_.begin(), errors_.end()};
}

void ImageProblems::add_deep(std::string_view key) {
  const std::lock_guard lock(mutex_);
  // The warning names the first image by name, so it does not depend on the order in which threads add images.
  if (deep_++ == 0 || key < first_deep_) first_deep_ = key;
}

std::string ImageProblems::warning() const {
  const std::lock_guard lock(mutex_);
  if (deep_ == 0) return {};
  return "images of 16 bits a value: " + std::to_string(deep_) + ", the first " + first_deep_ +
         "; training gets their high 8 bits (mnshard npy and index keep all bits)";
}

}  // namespace mn::data

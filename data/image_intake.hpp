/// Checks and resizes images before they are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mn/image/image_decoder.hpp>
#include <mn/image/resize.hpp>

#include "data/conversion.hpp"

namespace mn::data {

struct ImageOptions {
  bool skip_bad = false;            ///< unusable images are left out; false: an unusable image ends the conversion
  bool check_headers_only = false;  ///< only images' headers are checked; false: every image is decoded as a check
  int resize = 0;  ///< images with a longer short side (pixels) are resized to it, and stored as JPEG; 0: never
  std::filesystem::path classes = {};                         ///< file of class names, one on each line, label 0 first
  std::string columns = {};                                   ///< "PATH,LABEL": columns of a CSV that lists images
  std::function<void(const std::string& warning)> warn = {};  ///< called on rank 0, before any shard is written
};

/// The largest number of pixels of an image that can be resized, which is more than a stored image may have. The
/// decoder holds up to 3 bytes for each pixel.
inline constexpr std::int64_t kMaxResizedPixels = std::int64_t{1} << 30;

/// Records what this process reports about images: images that were left out, and images with more than 8 bits in a
/// value. Training gets the high 8 bits of such values. Thread-safe.
class ImageProblems {
 public:
  explicit ImageProblems(bool skip_bad) : skip_bad_(skip_bad) {}
  /// Records that an image was left out; `what` names the image and the reason. If `skip_bad` is false, throws a
  /// DataError with the text `what` instead.
  void leave_out(const std::string& what);
  /// A line for each image that was left out, sorted.
  [[nodiscard]] std::vector<std::string> errors() const;
  /// Records an image with more than 8 bits in a value.
  void add_deep(std::string_view key);
  /// A warning with the number of images recorded by add_deep(), and with the first of their names in sorted order.
  /// Empty if there are no such images.
  [[nodiscard]] std::string warning() const;

 private:
  bool skip_bad_;
  mutable std::mutex mutex_;
  std::multiset<std::string> errors_;
  std::int64_t deep_ = 0;
  std::string first_deep_;
};

/// Checks images, and resizes large images if ImageOptions::resize is set. Reuses its memory from image to image. Use
/// an object from one thread at a time.
class ImageIntake {
 public:
  ImageIntake(const ImageOptions& options, ImageProblems& problems);
  ~ImageIntake();

  /// Adds the image to the shard `content`. If the image is unusable, throws a DataError whose text lacks the image's
  /// name; the caller adds the name.
  void add(std::span<const std::byte> bytes, std::int32_t label, std::string_view key, ShardContent& content);

 private:
  class JpegWriter;

  [[nodiscard]] const Image& resized(const ImageHeader& header);

  ImageOptions options_;
  ImageProblems& problems_;
  ImageDecoder decoder_{kMaxResizedPixels};
  Resizer resizer_;
  std::unique_ptr<JpegWriter> writer_;
  Image decoded_;
  Image small_;
};

/// An empty shard of labeled images with `bytes` of memory reserved for its samples, because a buffer that grows holds
/// the samples twice while it copies them. Reserved pages take no memory until they are written.
[[nodiscard]] ShardContent encoded_content(std::int64_t bytes);

/// The classes without a sample: their names, or their numbers if the classes have no names. Reads the labels of all
/// shards.
[[nodiscard]] std::vector<std::string> empty_classes(const ShardTable& table);

}  // namespace mn::data

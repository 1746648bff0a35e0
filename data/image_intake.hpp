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
  bool skip_bad = false;            ///< leave out unusable images; false: the first of them ends the conversion
  bool check_headers_only = false;  ///< check only headers; false: decode every image as a check
  int resize = 0;  ///< images with a longer short side (pixels) are resized to it, and stored as JPEG; 0: never
  std::filesystem::path classes = {};                         ///< file of class names, one on each line, label 0 first
  std::string columns = {};                                   ///< "PATH,LABEL": columns of a CSV that lists images
  std::function<void(const std::string& warning)> warn = {};  ///< called on rank 0, before any shard is written
};

/// The largest number of pixels of an image that can be resized; a stored image may have fewer. The decoder holds up to
/// 3 bytes for each pixel.
inline constexpr std::int64_t kMaxResizedPixels = std::int64_t{1} << 30;

/// What this process reports about images: images left out, and images with more than 8 bits in a value (training gets
/// the high 8 bits). Thread-safe.
class ImageProblems {
 public:
  explicit ImageProblems(bool skip_bad) : skip_bad_(skip_bad) {}
  /// Records that an image was left out; `what` names the image and the reason. If `skip_bad` is false, throws a
  /// DataError with this text instead.
  void leave_out(const std::string& what);
  [[nodiscard]] std::vector<std::string> errors() const;
  void add_deep(std::string_view key);
  /// A warning with the number of images of add_deep(), and the first of their names (sorted); empty if there are none.
  [[nodiscard]] std::string warning() const;

 private:
  bool skip_bad_;
  mutable std::mutex mutex_;
  std::multiset<std::string> errors_;
  std::int64_t deep_ = 0;
  std::string first_deep_;
};

/// Checks images, and resizes large images if ImageOptions::resize is set. Reuses its memory. Only one thread at a time
/// may use an object.
class ImageIntake {
 public:
  ImageIntake(const ImageOptions& options, ImageProblems& problems);
  ~ImageIntake();

  /// Adds the image to `content`. Throws a DataError if the image is unusable; the caller adds the image's name.
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

/// An empty shard of labeled images with `bytes` of reserved memory: a growing buffer would hold the samples twice.
/// Reserved pages take no memory until they are written.
[[nodiscard]] ShardContent encoded_content(std::int64_t bytes);

/// The names (or, without names, the numbers) of the classes without a sample. Reads the labels of all shards.
[[nodiscard]] std::vector<std::string> empty_classes(const ShardTable& table);

}  // namespace mn::data

/// Checks and resizes images before they are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <mn/image/image_decoder.hpp>
#include <mn/image/resize.hpp>

#include "data/conversion.hpp"

namespace mn::data {

struct ImageOptions {
  bool skip_bad = false;            ///< leave unusable images out, instead of ending with the first
  bool check_headers_only = false;  ///< instead of decoding every image once
  int resize = 0;                   ///< pixels of the short side: larger images are resized and stored as JPEG; 0: none
  std::filesystem::path classes = {};                         ///< names of the classes, one a line, label 0 first
  std::function<void(const std::string& warning)> warn = {};  ///< before any shard is written, on rank 0
};

/// Checks images, and resizes them if asked to. Keeps its memory; one thread at a time.
class ImageIntake {
 public:
  explicit ImageIntake(const ImageOptions& options);
  ~ImageIntake();
  ImageIntake(const ImageIntake&) = delete;
  ImageIntake& operator=(const ImageIntake&) = delete;

  /// Adds the image to a shard. Throws DataError without the name of the image if it is unusable.
  void add(std::span<const std::byte> bytes, std::int32_t label, std::string_view key, ShardContent& content);

 private:
  class JpegWriter;

  [[nodiscard]] bool is_longer(const ImageHeader& header) const;
  [[nodiscard]] const Image& resized(const ImageHeader& header);

  ImageOptions options_;
  ImageDecoder decoder_;
  Resizer resizer_;
  std::unique_ptr<JpegWriter> writer_;
  Image decoded_;
  Image small_;
};

/// A shard without samples yet, with room for `bytes` (untouched pages take no memory): a buffer that grows by copying
/// would hold the samples twice.
[[nodiscard]] ShardContent encoded_content(std::int64_t bytes);

/// Names, or numbers, of the classes without a sample. Reads the labels of all shards.
[[nodiscard]] std::vector<std::string> empty_classes(const ShardTable& table);

/// The images that this process left out. Thread-safe.
class LeftOut {
 public:
  explicit LeftOut(bool skip_bad) : skip_bad_(skip_bad) {}
  /// Throws DataError unless bad images are to be left out.
  void add(const std::string& what);
  [[nodiscard]] std::vector<std::string> errors() const;

 private:
  bool skip_bad_;
  mutable std::mutex mutex_;
  std::vector<std::string> errors_;
};

}  // namespace mn::data

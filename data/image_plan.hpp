/// Decides which image goes into which shard. The list of images is in files: 100 million images need too much memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/file.hpp>

namespace mn::data {

struct ImageFile {
  std::string key;  ///< path relative to the source folder
  std::int32_t label = 0;
};

struct ImageDivision {
  bool shuffle = true;  ///< shuffle once, before the division into shards
  std::uint64_t seed = 0;
  std::int64_t shard_bytes = std::int64_t{256} << 20;
};

class FileAppender {
 public:
  explicit FileAppender(std::filesystem::path path) : file_(std::move(path), File::Mode::kReplace) {}
  void append(std::span<const std::byte> bytes);
  template <class T>
  void append_value(const T& value) {
    append(std::as_bytes(std::span(&value, 1)));
  }
  /// Writes the remaining bytes. Call it at the end: the destructor does not.
  void flush();
  [[nodiscard]] std::uint64_t size() const noexcept { return written_ + pending_.size(); }

 private:
  File file_;
  std::uint64_t written_ = 0;
  std::vector<std::byte> pending_;
};

class ImagePlanWriter {
 public:
  explicit ImagePlanWriter(std::filesystem::path folder);
  void add(std::string_view key, std::int32_t label, std::int64_t bytes);
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Divides the images into shards, and writes the division. Memory: 4 bytes for each image.
  void finish(const ImageDivision& division);

 private:
  std::filesystem::path folder_;
  FileAppender records_;
  FileAppender ends_;
  FileAppender sizes_;
  std::int64_t size_ = 0;
};

/// Reads the files of an ImagePlanWriter. Thread-safe. Memory: 8 bytes for each shard.
class ImagePlan {
 public:
  /// Throws DataError if the folder's files are absent or damaged.
  ImagePlan(const std::filesystem::path& folder, const ImageDivision& division);
  [[nodiscard]] std::int64_t size() const noexcept { return firsts_.back(); }
  [[nodiscard]] std::size_t shards() const noexcept { return firsts_.size() - 1; }
  [[nodiscard]] std::int64_t images_in(std::size_t shard) const { return firsts_[shard + 1] - firsts_[shard]; }
  [[nodiscard]] std::vector<ImageFile> images_of(std::size_t shard) const;

 private:
  [[noreturn]] void damaged() const;
  [[nodiscard]] ImageFile image(std::int64_t index) const;

  ImageDivision division_;
  File records_;
  File ends_;
  std::vector<std::int64_t> firsts_;  // [shards + 1] position of each shard's first image
};

}  // namespace mn::data

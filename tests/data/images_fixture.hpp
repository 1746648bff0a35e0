/// A folder of small JPEGs in three classes, and the folder's conversion.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include <mn/core/file.hpp>
#include <mn/data/shard_reader.hpp>

#include "data/convert.hpp"
#include "data/extract.hpp"
#include "tests/image/jpeg_samples.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {

namespace fs = std::filesystem;

inline std::string jpeg(int width, int height, const JpegOptions& options = {}) {
  const auto bytes = encode_jpeg(draw_image(width, height), options);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Images : public ::testing::Test {
 protected:
  Images() {
    for (int i = 0; i < 40; ++i) {
      add("c" + std::to_string(i % 3) + "/" + std::to_string(i) + ".jpg", jpeg(20 + i, 30));
    }
  }

  void add(const std::string& key, const std::string& content) {
    fs::create_directories((source_ / key).parent_path());
    test::write_text(source_ / key, content);
    content_[key] = content;
  }

  ImageConvertOptions options() const {
    ImageConvertOptions options;
    options.output = {.out = out_, .split = "train", .shard_bytes = 8000, .threads = 2};
    return options;
  }

  ImageConversion convert() { return convert_images(source_, options()); }

  std::map<std::string, std::int64_t> labels_by_key(const ShardTable& table) {
    std::map<std::string, std::int64_t> labels;
    for (std::int64_t i = 0; i < table.num_samples(); ++i) {
      const auto sample = extract_sample(table, i);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size()),
                content_[sample.key]);
      labels[sample.key] = sample.label;
    }
    return labels;
  }

  /// Leaves the files of a conversion that was killed before the manifest.
  void convert_but_for_the_manifest(ImageConvertOptions options) {
    const fs::path kept = folder_.path() / "kept";
    options.output.progress = [&](std::int64_t, std::int64_t) {
      fs::remove_all(kept);
      fs::create_directory(kept);
      for (const char* name : {"conversion.json", ".conversion"}) {
        fs::copy(out_ / name, kept / name, fs::copy_options::recursive);
      }
    };
    convert_images(source_, options);
    fs::remove(out_ / kDatasetManifest);
    fs::copy(kept, out_, fs::copy_options::recursive);
  }

  /// Content of every file in the output.
  std::map<std::string, std::string> snapshot() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(out_)) {
      if (entry.is_regular_file() && entry.path().filename() != kDatasetManifest) {
        files[entry.path().filename()] = read_file(entry.path());
      }
    }
    return files;
  }

  test::TemporaryFolder folder_;
  fs::path source_ = folder_.path() / "source";
  fs::path out_ = folder_.path() / "out";
  std::map<std::string, std::string> content_;
};

}  // namespace mn::data

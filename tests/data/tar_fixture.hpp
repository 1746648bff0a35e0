/// A folder of WebDataset's tar files, and its conversion to shards.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/data/shard_reader.hpp>

#include "data/tar.hpp"
#include "images_fixture.hpp"
#include "ranks_fixture.hpp"
#include "tar_files.hpp"

namespace mn::data {

using test::message_of;
using test::tar_end;
using test::tar_file;
using test::TarFormat;

class Tar : public testing::Test {
 protected:
  Tar() { fs::create_directory(tars_); }

  /// Samples FIRST … LAST − 1, each an image of another size with label number mod 4.
  std::string samples(int first, int last, TarFormat format = TarFormat::kUstar) {
    std::string content;
    for (int i = first; i < last; ++i) {
      const std::string key = key_of(i);
      images_[key] = jpeg(20 + i % 50, 30 + i / 50);
      content += tar_file(key + ".cls", std::to_string(i % 4) + "\n", format);
      content += tar_file(key + (i % 2 == 0 ? ".jpg" : ".JPEG"), images_[key], format);
      if (i % 3 == 0) content += tar_file(key + ".json", "{}", format);
    }
    return content;
  }
  /// Some of them long: 60 characters of folder, 90 of name.
  static std::string key_of(int i) {
    const std::string number = std::to_string(1000 + i);
    return i % 5 == 0 ? std::string(60, 'd') + "/" + std::string(90, 'n') + number : "part/" + number;
  }
  void write(const std::string& name, const std::string& content) { test::write_text(tars_ / name, content); }
  ImageConvertOptions options(const JobRank& me = {}) const {
    ImageConvertOptions options;
    options.output = {.out = out_, .split = "train", .shard_bytes = 6000, .threads = 2, .me = me};
    return options;
  }
  ImageConversion convert() { return convert_tar({tars_.string()}, options()); }
  std::string error_of(const std::string& content) {
    fs::remove_all(out_);
    write("a.tar", content);
    const std::string error = message_of<DataError>([&] { convert(); });
    EXPECT_EQ(std::ranges::count(error, '\n'), 0) << error;
    EXPECT_FALSE(fs::exists(out_ / kDatasetManifest));
    return error;
  }
  /// Number of shards among these files.
  static std::size_t shards_in(const std::map<std::string, std::string>& files) { return files.size() - 1; }
  void expect_samples(const ShardTable& table, int count) {
    ASSERT_EQ(table.num_samples(), count);
    for (int i = 0; i < count; ++i) {
      const auto sample = extract_sample(table, i);
      EXPECT_EQ(sample.key, key_of(i));
      EXPECT_EQ(sample.label, i % 4);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size()),
                images_[sample.key]);
    }
  }

  test::TemporaryFolder folder_;
  fs::path tars_ = folder_.path() / "tars";
  fs::path out_ = folder_.path() / "out";
  std::map<std::string, std::string> images_;  // by key
};

}  // namespace mn::data

// Stopped conversions, and further conversions in their folder.
#include <algorithm>
#include <chrono>

#include <gmock/gmock.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/memory_dataset.hpp>

#include "data/token_samples.hpp"
#include "data/verify.hpp"
#include "images_fixture.hpp"
#include "tests/data/write_fixed_dataset.hpp"

namespace mn::data {
namespace {

using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(Images, GoesOnAfterAnInterruption) {
  convert();
  const auto whole = snapshot();
  // The folder after a kill: no manifest, some shards, one half-written file, the mark of the conversion.
  auto stopped = options();
  fs::remove_all(out_);
  stopped.output.progress = [](std::int64_t done, std::int64_t) {
    if (done == 25) throw DataError("killed");
  };
  EXPECT_EQ(message_of<DataError>([&] { convert_images(source_, stopped); }), "killed");
  EXPECT_FALSE(fs::exists(out_ / kDatasetManifest));
  const auto begun = snapshot();
  EXPECT_GT(begun.size(), 1u);
  const fs::path half = out_ / ".train-00005-of-00006.h5.other-host.1.0123456789abcdef.tmp";
  test::write_text(half, "half");
  fs::last_write_time(half, fs::file_time_type::clock::now() - std::chrono::hours(2));

  auto other = options();
  other.seed = 1;
  EXPECT_THAT(message_of<UsageError>([&] { convert_images(source_, other); }), HasSubstr("beginnings of another"));
  const auto result = convert();
  EXPECT_EQ(result.conversion.kept_shards, static_cast<std::int64_t>(begun.size()) - 1);
  EXPECT_EQ(snapshot(), whole);
  EXPECT_EQ(labels_by_key(result.table()).size(), 40u);
  EXPECT_THAT(message_of<UsageError>([&] { convert(); }), HasSubstr("holds a dataset already"));
}

class StoppedImages : public Images {
 protected:
  /// The files after a kill: some shards, the mark of the conversion, no manifest.
  StoppedImages() {
    auto stopped = options();
    stopped.output.threads = 1;
    stopped.output.progress = [](std::int64_t done, std::int64_t) {
      if (done == 25) throw DataError("killed");
    };
    EXPECT_EQ(message_of<DataError>([&] { convert_images(source_, stopped); }), "killed");
    for (const auto& entry : fs::directory_iterator(out_)) {
      if (entry.path().extension() == ".h5") first_ = std::min(first_.empty() ? entry.path() : first_, entry.path());
    }
  }

  std::string rejection(const ImageConvertOptions& options) {
    return message_of<UsageError>([&] { convert_images(source_, options); });
  }

  fs::path first_;  ///< folder of the shards
};

TEST_F(StoppedImages, AnotherSplitIsAnotherConversion) {
  auto other = options();
  other.output.split = "val";
  EXPECT_THAT(rejection(other), HasSubstr("beginnings of another"));
}

TEST_F(StoppedImages, ATruncatedShardIsWrittenAgain) {
  fs::resize_file(first_, fs::file_size(first_) / 2);
  const auto result = convert();
  EXPECT_EQ(labels_by_key(result.table()).size(), 40u);
  EXPECT_TRUE(verify_dataset(result.table(), 2).empty());
}

TEST_F(StoppedImages, AShardOfOtherImagesIsNamed) {
  const auto use = [&](const fs::path& shard) {
    fs::copy_file(shard, first_, fs::copy_options::overwrite_existing);
    return message_of<DataError>([&] { convert(); });
  };
  const auto expected = AllOf(HasSubstr(first_.string()), HasSubstr("other samples"));
  auto other = options();
  other.output.out = folder_.path() / "other";
  EXPECT_THAT(use(convert_images(source_, other).table().path(1)), expected);

  std::string list;  // equal images in equal order, with changed labels
  for (const auto& [key, content] : content_) list += key + " " + std::to_string((key[1] - '0' + 1) % 3) + "\n";
  test::write_text(source_ / "list.txt", list);
  other.output.out = folder_.path() / "labels";
  EXPECT_THAT(use(convert_images(source_ / "list.txt", other).table().path(0)), expected);

  const std::int64_t label = 0;
  RawSamples samples = labeled_samples(ByteBuffer(1), std::span(&label, 1));
  const ConvertOptions fixed{.out = folder_.path() / "fixed"};
  EXPECT_THAT(use(write_fixed_dataset(MemoryDataset(labeled({.shape = {1}}), std::move(samples)), fixed, {}).path(0)),
              expected);
}

TEST_F(Images, ShardsOfAnotherConversionAreNotTakenOver) {
  fs::remove(convert().table().path(1));
  fs::remove(out_ / kDatasetManifest);
  const auto before = snapshot();
  EXPECT_THAT(message_of<UsageError>([&] { convert(); }), AllOf(HasSubstr("holds shards"), HasSubstr(out_.string())));
  EXPECT_EQ(snapshot(), before);
}

TEST_F(Images, WhatWasLeftOutBeforeIsNotLeftOutUnasked) {
  add("c0/bad.jpg", "no image");
  auto lenient = options();
  lenient.images.skip_bad = true;
  convert_but_for_the_manifest(lenient);
  EXPECT_THAT(message_of<DataError>([&] { convert(); }), HasSubstr("bad.jpg"));
  EXPECT_EQ(convert_images(source_, lenient).left_out, 1);
}

// Damage by a crash of the machine between the passes of a conversion is an error, not samples.
TEST(TokenFiles, AreReadAsWrittenOrNotAtAll) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "tokens";
  std::vector<std::int32_t> tokens(600'000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 37 % 251);
  TokenWriter writer(path, 2);
  for (std::size_t at = 0; at < tokens.size(); at += 9'999) {
    writer.add(std::span(tokens).subspan(at, std::min<std::size_t>(9'999, tokens.size() - at)));
  }
  EXPECT_FALSE(fs::exists(path));
  const std::int64_t count = writer.finish();
  EXPECT_EQ(count, std::ssize(tokens));
  std::vector<std::int16_t> found(300'000);
  const auto read = [&](std::int64_t first) {
    read_tokens(path, 2, count, first, std::as_writable_bytes(std::span(found)));
  };
  for (const std::int64_t first : {0, 1, 262'143, 262'144, 300'000}) {
    read(first);
    EXPECT_TRUE(std::ranges::equal(found, std::span(tokens).subspan(first, found.size()))) << first;
  }
  const std::string whole = read_file(path);
  std::string zeros = whole;
  std::fill(zeros.begin() + 700'000, zeros.begin() + 704'096, '\0');
  for (const std::string& bad : {zeros, whole.substr(0, 700'000), std::string()}) {
    write_file(path, bad);
    EXPECT_THROW(read(262'144), DataError);
  }
}

TEST_F(Images, OneWriterAtATime) {
  std::string second;
  auto first = options();
  first.output.progress = [&](std::int64_t done, std::int64_t) {
    if (done == 1) second = message_of<UsageError>([&] { convert(); });
  };
  EXPECT_EQ(labels_by_key(convert_images(source_, first).table()).size(), 40u);
  EXPECT_THAT(second, AllOf(HasSubstr("another mnshard"), HasSubstr(out_.string())));
  for (const auto& entry : fs::directory_iterator(out_)) EXPECT_EQ(entry.path().extension(), ".h5");
}

}  // namespace
}  // namespace mn::data

// Converters of pictures: what comes out is what went in, whatever stops them in between.
#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/convert.hpp>
#include <mn/data/convert_images.hpp>
#include <mn/data/inspect.hpp>
#include <mn/data/shard_reader.hpp>

#include "jpeg_samples.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

std::string jpeg(int width, int height, const JpegOptions& options = {}) {
  const auto bytes = encode_jpeg(make_picture(width, height), options);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Images : public testing::Test {
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
    options.output = {.out = out_, .split = "train", .shard_bytes = 8000};
    options.threads = 2;
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

  /// Converts; the mark that lay in the output meanwhile.
  std::string convert_and_keep_mark(ImageConvertOptions options) {
    std::string mark;
    options.progress = [&](std::int64_t, std::int64_t) { mark = read_file(out_ / "conversion.json"); };
    convert_images(source_, options);
    return mark;
  }

  /// Content of every file in the output.
  std::map<std::string, std::string> snapshot() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(out_)) {
      if (entry.path().filename() != kManifestName) files[entry.path().filename()] = read_file(entry.path());
    }
    return files;
  }

  test::TemporaryFolder folder_;
  fs::path source_ = folder_.path() / "source";
  fs::path out_ = folder_.path() / "out";
  std::map<std::string, std::string> content_;
};

TEST_F(Images, EveryFileComesBackWithItsClass) {
  const auto result = convert();
  EXPECT_GT(result.table.shards().size(), 3u);
  EXPECT_EQ(result.table.spec().class_names, (std::vector<std::string>{"c0", "c1", "c2"}));
  EXPECT_EQ(result.left_out, 0);
  const auto labels = labels_by_key(result.table);
  EXPECT_EQ(labels.size(), 40u);
  for (const auto& [key, label] : labels) EXPECT_EQ("c" + std::to_string(label), key.substr(0, 2));
  EXPECT_TRUE(verify_dataset(result.table, 2).damage.empty());
  for (const ShardInfo& shard : result.table.shards()) EXPECT_LT(shard.bytes, 8000 + 64 * 1024);
}

TEST_F(Images, ClassesAreMixedOverTheShards) {
  const auto result = convert();
  int changes = 0;
  for (std::int64_t i = 1; i < 40; ++i) {
    changes += extract_sample(result.table, i).label != extract_sample(result.table, i - 1).label ? 1 : 0;
  }
  EXPECT_GT(changes, 15);
}

TEST_F(Images, ThreadsAndRunsChangeNothing) {
  convert();
  const auto first = snapshot();
  fs::remove_all(out_);
  auto serial = options();
  serial.threads = 1;
  convert_images(source_, serial);
  EXPECT_EQ(snapshot(), first);
}

TEST_F(Images, AListFileMayNameAnyFiles) {
  add("other/with space.jpg", jpeg(50, 50));
  test::write_text(source_ / "list.txt",
                   "\xef\xbb\xbf"
                   "c0/0.jpg 1\nother/with space.jpg\t0\r\n\nc1/1.jpg 1\n");
  const auto result = convert_images(source_ / "list.txt", options());
  EXPECT_EQ(labels_by_key(result.table),
            (std::map<std::string, std::int64_t>{{"c0/0.jpg", 1}, {"other/with space.jpg", 0}, {"c1/1.jpg", 1}}));
  EXPECT_EQ(result.table.spec().num_classes, 2);
}

TEST_F(Images, AListMayHaveNamesForItsLabels) {
  test::write_text(source_ / "list.txt", "c0/0.jpg 2\nc1/1.jpg 0\n");
  auto named = options();
  named.classes = source_ / "names";
  const auto use = [&](const std::string& names) {
    test::write_text(named.classes, names);
    return message_of<DataError>([&] { convert_images(source_ / "list.txt", named); });
  };
  EXPECT_THAT(use("a\nb\n"), AllOf(HasSubstr("names 2 classes"), HasSubstr("label 2")));
  EXPECT_THAT(use("a\nb\na\n"), AllOf(HasSubstr("names:3"), HasSubstr("\"a\""), HasSubstr("names:1")));
  EXPECT_THAT(use("a\n\nb\nc\n"), AllOf(HasSubstr("names:2"), HasSubstr("empty")));
  EXPECT_THAT(use("a\nb\n" + std::string(256, 'c')), HasSubstr("names:3"));
  EXPECT_THAT(message_of<UsageError>([&] { convert_images(source_, named); }),
              HasSubstr("--classes is for list files"));

  EXPECT_EQ(use("\xef\xbb\xbf"
                "a\r\nb c\nd\ne\n\n"),
            "");
  const ShardTable table = read_manifest(out_);
  EXPECT_EQ(table.spec().class_names, (std::vector<std::string>{"a", "b c", "d", "e"}));
  EXPECT_EQ(table.spec().num_classes, 4);
  EXPECT_EQ(labels_by_key(table), (std::map<std::string, std::int64_t>{{"c0/0.jpg", 2}, {"c1/1.jpg", 0}}));
}

TEST_F(Images, WrongListsAreNamed) {
  const auto use = [&](const std::string& text) {
    test::write_text(source_ / "list.txt", text);
    return message_of<DataError>([&] { convert_images(source_ / "list.txt", options()); });
  };
  EXPECT_THAT(use("c0/0.jpg 0\nc0/3.jpg zero\n"), AllOf(HasSubstr("list.txt:2"), HasSubstr("\"zero\"")));
  EXPECT_THAT(use("c0/0.jpg\n"), AllOf(HasSubstr("list.txt:1"), HasSubstr("path label")));
  EXPECT_THAT(use("absent.jpg 0\n"), AllOf(HasSubstr("absent.jpg"), HasSubstr("No such file")));
  EXPECT_THAT(use("c0/0.jpg -1\n"), HasSubstr("not a label"));
  EXPECT_THAT(use("c0/0.jpg 2\nc0/3.jpg 0\n"), AllOf(HasSubstr("class 1"), HasSubstr("empty")));
  EXPECT_THAT(use("\n"), HasSubstr("lists no pictures"));
  EXPECT_FALSE(fs::exists(out_)) << "nothing was begun";
}

TEST_F(Images, WrongFoldersAreNamed) {
  fs::create_directories(source_ / "c9");
  EXPECT_THAT(message_of<DataError>([&] { convert(); }), AllOf(HasSubstr("class c9"), HasSubstr("empty")));
  EXPECT_THAT(message_of<DataError>([&] { convert_images(source_ / "c0", options()); }),
              HasSubstr("no folders with pictures"));
  EXPECT_THAT(message_of<DataError>([&] { convert_images(source_ / "none", options()); }),
              HasSubstr("no folder or list file"));
}

TEST_F(Images, ClassesMayHaveFolders) {
  add("c1/images/7.JPEG", jpeg(50, 50));
  add("c1/images/deep/8.jpg", jpeg(51, 50));
  const auto labels = labels_by_key(convert().table);
  EXPECT_EQ(labels.size(), 42u);
  EXPECT_EQ(labels.at("c1/images/7.JPEG"), 1);
  EXPECT_EQ(labels.at("c1/images/deep/8.jpg"), 1);
}

TEST_F(Images, LinksAreFollowedOnce) {
  fs::create_directory_symlink("..", source_ / "c0" / "up");
  fs::create_directory_symlink(".", source_ / "c1" / "self");
  const fs::path elsewhere = folder_.path() / "elsewhere";
  fs::create_directories(elsewhere);
  test::write_text(elsewhere / "x.jpg", content_["c2/other/x.jpg"] = jpeg(9, 9));
  fs::create_directory_symlink(elsewhere, source_ / "c2" / "other");
  const auto labels = labels_by_key(convert().table);
  EXPECT_EQ(labels.size(), 41u);
  EXPECT_EQ(labels.at("c2/other/x.jpg"), 2);
}

TEST_F(Images, OtherFilesAreLeftAloneInOneLine) {
  for (const char* name : {"c0/Thumbs.db", "c0/.DS_Store", "c1/desktop.ini", "c1/boxes.txt", "loose.jpg"}) {
    test::write_text(source_ / name, "?");
  }
  std::vector<std::string> warnings;
  auto warning = options();
  warning.warn = [&](const std::string& text) { warnings.push_back(text); };
  EXPECT_EQ(labels_by_key(convert_images(source_, warning).table).size(), 40u);
  EXPECT_THAT(warnings, testing::ElementsAre(AllOf(HasSubstr(": 4,"), HasSubstr("c0/Thumbs.db"))));
}

TEST_F(Images, ALinkToNowhereIsAnUnusableFile) {
  fs::create_symlink("nowhere", source_ / "c0" / "gone.jpg");
  EXPECT_THAT(message_of<DataError>([&] { convert(); }), AllOf(HasSubstr("c0/gone.jpg"), HasSubstr("No such file")));
  auto lenient = options();
  lenient.skip_bad = true;
  EXPECT_EQ(convert_images(source_, lenient).left_out, 1);
}

TEST_F(Images, EveryKindOfJpegIsTaken) {
  add("c0/gray.jpg", jpeg(31, 17, {.colour = Colour::kGray}));
  add("c0/cmyk.jpg", jpeg(31, 17, {.colour = Colour::kCmyk}));
  add("c0/ycck.jpg", jpeg(31, 17, {.colour = Colour::kYcck}));
  add("c0/progressive.jpg", jpeg(31, 17, {.progressive = true}));
  add("c0/rotated.jpg", jpeg(31, 17, {.orientation = 6}));
  EXPECT_EQ(labels_by_key(convert().table).size(), 45u);
}

TEST_F(Images, UnusableFilesAreNamedOrLeftOut) {
  const std::string good = jpeg(64, 64);
  add("c0/truncated.jpg", good.substr(0, good.size() / 2));
  add("c1/png.JPEG", std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16));
  add("c1/text.jpg", "no picture at all");
  add("c2/empty.jpg", "");
  EXPECT_THAT(message_of<DataError>([&] { convert(); }),
              AllOf(HasSubstr(source_.string()), HasSubstr("--on-error skip")));

  auto lenient = options();
  lenient.skip_bad = true;
  const auto result = convert_images(source_, lenient);  // goes on in the same folder
  EXPECT_EQ(labels_by_key(result.table).size(), 40u);
  EXPECT_EQ(result.left_out, 4);
  EXPECT_LE(result.errors.size(), 4u);
  for (const std::string& error : result.errors) EXPECT_THAT(error, HasSubstr(source_.string()));
}

TEST_F(Images, GoesOnAfterAnInterruption) {
  convert();
  const auto whole = snapshot();
  // As a kill leaves it: no manifest, some shards, one half-written file, the mark of the conversion.
  auto stopped = options();
  fs::remove_all(out_);
  stopped.progress = [](std::int64_t done, std::int64_t) {
    if (done == 25) throw DataError("killed");
  };
  EXPECT_EQ(message_of<DataError>([&] { convert_images(source_, stopped); }), "killed");
  EXPECT_FALSE(fs::exists(out_ / kManifestName));
  const auto begun = snapshot();
  EXPECT_GT(begun.size(), 1u);
  test::write_text(out_ / ".train-00005-of-00006.h5.tmp", "half");

  auto other = options();
  other.seed = 1;
  EXPECT_THAT(message_of<UsageError>([&] { convert_images(source_, other); }), HasSubstr("beginnings of another"));
  const auto result = convert();
  EXPECT_EQ(result.kept_shards, static_cast<std::int64_t>(begun.size()) - 1);
  EXPECT_EQ(snapshot(), whole);
  EXPECT_EQ(labels_by_key(result.table).size(), 40u);
  EXPECT_THAT(message_of<UsageError>([&] { convert(); }), HasSubstr("holds a dataset already"));
}

class StoppedImages : public Images {
 protected:
  /// As a kill leaves them: some shards, the mark of the conversion, no manifest.
  StoppedImages() {
    auto stopped = options();
    stopped.threads = 1;
    stopped.progress = [](std::int64_t done, std::int64_t) {
      if (done == 25) throw DataError("killed");
    };
    EXPECT_EQ(message_of<DataError>([&] { convert_images(source_, stopped); }), "killed");
    for (const auto& entry : fs::directory_iterator(out_)) {
      if (entry.path().extension() == ".h5") first_ = std::min(first_.empty() ? entry.path() : first_, entry.path());
    }
  }

  std::string refusal(const ImageConvertOptions& options) {
    return message_of<UsageError>([&] { convert_images(source_, options); });
  }

  fs::path first_;  ///< of the shards
};

TEST_F(StoppedImages, AnotherSplitIsAnotherConversion) {
  auto other = options();
  other.output.split = "val";
  EXPECT_THAT(refusal(other), HasSubstr("beginnings of another"));
}

TEST_F(StoppedImages, ATruncatedShardIsWrittenAgain) {
  fs::resize_file(first_, fs::file_size(first_) / 2);
  const auto result = convert();
  EXPECT_EQ(labels_by_key(result.table).size(), 40u);
  EXPECT_TRUE(verify_dataset(result.table, 2).damage.empty());
}

TEST_F(StoppedImages, AShardOfOtherPicturesIsNamed) {
  const auto use = [&](const fs::path& shard) {
    fs::copy_file(shard, first_, fs::copy_options::overwrite_existing);
    return message_of<UsageError>([&] { convert(); });
  };
  const auto expected = AllOf(HasSubstr(first_.string()), HasSubstr("other pictures"));
  auto other = options();
  other.output.out = folder_.path() / "other";
  EXPECT_THAT(use(convert_images(source_, other).table.path(1)), expected);

  std::string list;  // the same pictures in the same order, with other labels
  for (const auto& [key, content] : content_) list += key + " " + std::to_string((key[1] - '0' + 1) % 3) + "\n";
  test::write_text(source_ / "list.txt", list);
  other.output.out = folder_.path() / "labels";
  EXPECT_THAT(use(convert_images(source_ / "list.txt", other).table.path(0)), expected);

  RawSamples samples;
  samples.bytes.resize(1);
  samples.labels = {0};
  SampleSpec spec;
  spec.shape = {1};
  const ConvertOptions fixed{.out = folder_.path() / "fixed"};
  EXPECT_THAT(use(write_fixed_dataset(MemoryDataset(spec, std::move(samples)), fixed, {}).path(0)), expected);
}

TEST_F(Images, ShardsOfAnotherConversionAreNotTakenOver) {
  fs::remove(convert().table.path(1));
  fs::remove(out_ / kManifestName);
  const auto before = snapshot();
  EXPECT_THAT(message_of<UsageError>([&] { convert(); }), AllOf(HasSubstr("holds shards"), HasSubstr(out_.string())));
  EXPECT_EQ(snapshot(), before);
}

TEST_F(Images, WhatWasLeftOutBeforeIsNotLeftOutUnasked) {
  add("c0/bad.jpg", "no picture");
  auto lenient = options();
  lenient.skip_bad = true;
  const auto mark = convert_and_keep_mark(lenient);
  fs::remove(out_ / kManifestName);
  write_file(out_ / "conversion.json", mark);
  EXPECT_THAT(message_of<DataError>([&] { convert(); }), HasSubstr("bad.jpg"));
  EXPECT_EQ(convert_images(source_, lenient).left_out, 1);
}

TEST_F(Images, OneWriterAtATime) {
  std::string second;
  auto first = options();
  first.progress = [&](std::int64_t done, std::int64_t) {
    if (done == 1) second = message_of<UsageError>([&] { convert(); });
  };
  EXPECT_EQ(labels_by_key(convert_images(source_, first).table).size(), 40u);
  EXPECT_THAT(second, AllOf(HasSubstr("another mnshard"), HasSubstr(out_.string())));
  for (const auto& entry : fs::directory_iterator(out_)) EXPECT_EQ(entry.path().extension(), ".h5");
}

class Cifar : public testing::Test {
 protected:
  /// `records` of label bytes and a picture whose bytes are (record + i) mod 256.
  static std::string content(int records, int label_bytes, int classes) {
    std::string text;
    for (int r = 0; r < records; ++r) {
      if (label_bytes == 2) text += '\x13';  // the superclass
      text += static_cast<char>(r % classes);
      for (int i = 0; i < 3072; ++i) text += static_cast<char>(r + i);
    }
    return text;
  }
  test::TemporaryFolder folder_;
  fs::path out_ = folder_.path() / "out";
};

TEST_F(Cifar, TenComesBack) {
  for (int i = 1; i <= 5; ++i) {
    test::write_text(folder_.path() / ("data_batch_" + std::to_string(i) + ".bin"), content(20, 1, 10));
  }
  test::write_text(folder_.path() / "test_batch.bin", content(10, 1, 10));
  test::write_text(folder_.path() / "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  const auto tables = convert_cifar(folder_.path(), {.out = out_, .split = {}});
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].num_samples(), 100);
  EXPECT_EQ(tables[1].num_samples(), 10);
  EXPECT_EQ(tables[0].spec().class_names.size(), 10u);
  const auto sample = extract_sample(tables[0], 47);
  EXPECT_EQ(sample.label, 7);
  EXPECT_EQ(sample.bytes[3071], static_cast<std::byte>(7 + 3071));
  EXPECT_EQ(tables[0].spec().shape, (std::vector<std::int64_t>{3, 32, 32}));
}

TEST_F(Cifar, HundredTakesTheFineLabel) {
  test::write_text(folder_.path() / "train.bin", content(150, 2, 100));
  test::write_text(folder_.path() / "test.bin", content(10, 2, 100));
  const auto tables = convert_cifar(folder_.path(), {.out = out_, .split = {}});
  EXPECT_EQ(tables[0].spec().num_classes, 100);
  EXPECT_EQ(extract_sample(tables[0], 42).label, 42);
}

TEST_F(Cifar, NamesWhatIsWrong) {
  const auto use = [&] {
    return message_of<DataError>([&] { convert_cifar(folder_.path(), {.out = out_, .split = {}}); });
  };
  EXPECT_THAT(use(), HasSubstr("neither data_batch_1.bin"));
  test::write_text(folder_.path() / "train.bin", content(10, 2, 100));
  test::write_text(folder_.path() / "test.bin", content(3, 2, 100) + "x");
  EXPECT_THAT(use(), AllOf(HasSubstr("test.bin"), HasSubstr("truncated")));
  EXPECT_FALSE(fs::exists(out_)) << "all is read before anything is written";
  test::write_text(folder_.path() / "train.bin", std::string(3074, '\xff'));
  EXPECT_THAT(use(), AllOf(HasSubstr("train.bin"), HasSubstr("label 255")));

  test::write_text(folder_.path() / "train.bin", content(10, 2, 100));
  test::write_text(folder_.path() / "test.bin", content(3, 2, 100));
  fs::create_directories(out_ / "val");
  test::write_text(out_ / "val" / kManifestName, "");
  EXPECT_THAT(message_of<UsageError>([&] { convert_cifar(folder_.path(), {.out = out_, .split = {}}); }),
              HasSubstr("holds a dataset already"));
  EXPECT_FALSE(fs::exists(out_ / "train" / kManifestName));
}

}  // namespace
}  // namespace mn::data

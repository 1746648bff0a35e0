// CIFAR-10 and CIFAR-100 as shards.
#include <gmock/gmock.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

#include "data/convert.hpp"
#include "data/extract.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

class Cifar : public testing::Test {
 protected:
  /// `records` of label bytes and a image whose bytes are (record + i) mod 256.
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
  std::filesystem::path out_ = folder_.path() / "out";
};

TEST_F(Cifar, TenComesBack) {
  for (int i = 1; i <= 5; ++i) {
    test::write_text(folder_.path() / ("data_batch_" + std::to_string(i) + ".bin"), content(20, 1, 10));
  }
  test::write_text(folder_.path() / "test_batch.bin", content(10, 1, 10));
  test::write_text(folder_.path() / "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  const auto tables = convert_cifar(folder_.path(), {.out = out_, .split = {}}).tables;
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].num_samples(), 100);
  EXPECT_EQ(tables[1].num_samples(), 10);
  EXPECT_EQ(tables[0].spec()[1].class_names.size(), 10u);
  const auto sample = extract_sample(tables[0], 47);
  EXPECT_EQ(sample.label, 7);
  EXPECT_EQ(sample.bytes[3071], static_cast<std::byte>(7 + 3071));
  EXPECT_EQ(tables[0].spec()[0].shape, (std::vector<std::int64_t>{3, 32, 32}));
}

TEST_F(Cifar, HundredTakesTheFineLabel) {
  test::write_text(folder_.path() / "train.bin", content(150, 2, 100));
  test::write_text(folder_.path() / "test.bin", content(10, 2, 100));
  const auto tables = convert_cifar(folder_.path(), {.out = out_, .split = {}}).tables;
  EXPECT_EQ(tables[0].spec().num_classes(), 100);
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
  EXPECT_FALSE(std::filesystem::exists(out_)) << "all is read before anything is written";
  test::write_text(folder_.path() / "train.bin", std::string(3074, '\xff'));
  EXPECT_THAT(use(), AllOf(HasSubstr("train.bin"), HasSubstr("label 255")));

  test::write_text(folder_.path() / "train.bin", content(10, 2, 100));
  test::write_text(folder_.path() / "test.bin", content(3, 2, 100));
  std::filesystem::create_directories(out_ / "val");
  test::write_text(out_ / "val" / kDatasetManifest, "");
  EXPECT_THAT(message_of<UsageError>([&] { convert_cifar(folder_.path(), {.out = out_, .split = {}}); }),
              HasSubstr("holds a dataset already"));
  EXPECT_FALSE(std::filesystem::exists(out_ / "train" / kDatasetManifest));
}

}  // namespace
}  // namespace mn::data

// numpy's arrays as shards.
#include <algorithm>
#include <limits>

#include <gmock/gmock.h>

#include <mn/core/error.hpp>

#include "array_files.hpp"
#include "data/convert.hpp"
#include "data/extract.hpp"
#include "data/verify.hpp"
#include "ranks_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

using test::message_of;
using test::npy;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kRows = 130, kHeight = 3, kWidth = 5;

/// Element (row, i, j) is this number.
template <class T>
T element(std::int64_t row, std::int64_t i, std::int64_t j) {
  return static_cast<T>(std::numeric_limits<T>::max() / T{128} * static_cast<T>((row * 31 + i * 7 + j) % 120));
}

/// The elements of {130, 3, 5} in C or Fortran order, perhaps with their bytes reversed.
template <class T>
std::string elements(bool fortran, bool reversed = false) {
  std::vector<T> values(kRows * kHeight * kWidth);
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t i = 0; i < kHeight; ++i) {
      for (std::int64_t j = 0; j < kWidth; ++j) {
        const std::int64_t at = fortran ? row + kRows * (i + kHeight * j) : (row * kHeight + i) * kWidth + j;
        values[at] = element<T>(row, i, j);
      }
    }
  }
  std::string bytes = test::bytes_of(values);
  for (std::size_t at = 0; reversed && at < bytes.size(); at += sizeof(T)) {
    std::reverse(bytes.begin() + at, bytes.begin() + at + sizeof(T));
  }
  return bytes;
}

class Npy : public testing::Test {
 protected:
  Npy() {
    std::vector<std::int64_t> labels(kRows);
    for (std::int64_t row = 0; row < kRows; ++row) labels[row] = row % 6;
    labels_ = npy("<i8", false, "(130,)", test::bytes_of(labels));
    write("y.npy", labels_);
  }
  std::filesystem::path write(const std::string& name, const std::string& content) {
    test::write_text(folder_.path() / name, content);
    return folder_.path() / name;
  }
  ConvertOptions options(const JobRank& me = {}) const {
    return {.out = out_, .split = "train", .shard_bytes = 400, .threads = 2, .me = me};
  }
  ShardTable convert(const std::string& samples) {
    std::filesystem::remove_all(out_);
    return convert_npy(write("x.npy", samples), folder_.path() / "y.npy", options()).tables.at(0);
  }
  std::string error_of(const std::string& samples) {
    const std::string error = message_of<DataError>([&] { convert(samples); });
    EXPECT_FALSE(std::filesystem::exists(out_)) << "nothing was begun";
    EXPECT_EQ(std::ranges::count(error, '\n'), 0) << error;
    return error;
  }
  template <class T>
  void expect_samples(const ShardTable& table, DType dtype) {
    ASSERT_EQ(table.num_samples(), kRows);
    EXPECT_GT(table.shards().size(), 1u);
    EXPECT_EQ(table.spec()[0].dtype, dtype);
    EXPECT_EQ(table.spec()[0].shape, (std::vector<std::int64_t>{kHeight, kWidth}));
    EXPECT_EQ(table.spec().num_classes(), 6);
    for (const std::int64_t row : {0, 1, 63, 64, 129}) {
      std::vector<T> expected;
      for (std::int64_t at = 0; at < kHeight * kWidth; ++at)
        expected.push_back(element<T>(row, at / kWidth, at % kWidth));
      const auto sample = extract_sample(table, row);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size()),
                test::bytes_of(expected));
      EXPECT_EQ(sample.label, row % 6);
    }
  }
  template <class T>
  void expect_type(const std::string& type, DType dtype) {
    for (const bool fortran : {false, true}) {
      expect_samples<T>(convert(npy("<" + type, fortran, "(130, 3, 5)", elements<T>(fortran))), dtype);
      expect_samples<T>(convert(npy(">" + type, fortran, "(130, 3, 5)", elements<T>(fortran, true))), dtype);
    }
  }

  test::TemporaryFolder folder_;
  std::filesystem::path out_ = folder_.path() / "out";
  std::string labels_;
};

TEST_F(Npy, EveryTypeComesBackInEveryOrder) {
  expect_type<std::int32_t>("i4", DType::kInt32);
  expect_type<std::int64_t>("i8", DType::kInt64);
  expect_type<std::uint16_t>("u2", DType::kUInt16);
  expect_type<std::uint32_t>("u4", DType::kUInt32);
  expect_type<float>("f4", DType::kFloat32);
  expect_type<double>("f8", DType::kFloat64);
  expect_samples<std::uint8_t>(convert(npy("|u1", false, "(130, 3, 5)", elements<std::uint8_t>(false))), DType::kUInt8);
  expect_samples<std::uint8_t>(convert(npy("|u1", true, "(130L, 3L, 5L)", elements<std::uint8_t>(true))),
                               DType::kUInt8);
}

TEST_F(Npy, ASampleMayBeOneNumber) {
  const ShardTable table = convert(npy("<f4", false, "(130,)", elements<float>(false).substr(0, 130 * 4)));
  EXPECT_TRUE(table.spec()[0].shape.empty());
  EXPECT_EQ(extract_sample(table, 129).bytes.size(), 4u);
  EXPECT_TRUE(verify_dataset(table, 1).empty());
}

TEST_F(Npy, LabelsMayBeAnyIntegers) {
  const std::string samples = npy("|u1", false, "(130, 3, 5)", elements<std::uint8_t>(false));
  std::string bytes;
  for (int row = 0; row < kRows; ++row) bytes += {'\0', static_cast<char>(row % 6)};
  write("y.npy", npy(">u2", false, "(130, 1)", bytes));
  expect_samples<std::uint8_t>(convert(samples), DType::kUInt8);

  const auto use = [&](const std::string& labels) {
    write("y.npy", labels);
    return error_of(samples);
  };
  const std::string first(8 * 129, '\0');
  EXPECT_THAT(use(npy("<i8", false, "(130,)", first + test::number(std::int64_t{1} << 31))),
              AllOf(HasSubstr("y.npy: sample 129 has label 2147483648"), HasSubstr("int32")));
  EXPECT_THAT(use(npy("<u8", false, "(130,)", first + test::number(~std::uint64_t{0}))),
              HasSubstr("sample 129 has label 18446744073709551615"));
  EXPECT_THAT(use(npy("<i8", false, "(130,)", first + test::number(std::int64_t{-1}))), HasSubstr("has label -1"));
  EXPECT_THAT(use(npy("<f4", false, "(130,)", std::string(520, '\0'))), HasSubstr("labels are integers"));
  EXPECT_THAT(use(npy("<i4", false, "(130, 2)", std::string(1040, '\0'))), HasSubstr("more than one label"));
  EXPECT_THAT(use(npy("<i4", false, "(129,)", std::string(516, '\0'))), HasSubstr("130 samples"));
}

TEST_F(Npy, WhatIsNoArrayOfNumbersIsNamed) {
  const std::string good = npy("<f4", false, "(130, 3, 5)", elements<float>(false));
  EXPECT_THAT(error_of("no array"), AllOf(HasSubstr("x.npy"), HasSubstr("not an .npy file")));
  EXPECT_THAT(error_of(good.substr(0, 40)), HasSubstr("header is damaged"));
  EXPECT_THAT(error_of(good.substr(0, good.size() - 1)), HasSubstr("x.npy is truncated"));
  EXPECT_THAT(error_of(npy("|O", false, "(130,)", std::string(1040, ' '))), HasSubstr("\"|O\""));
  EXPECT_THAT(error_of(npy("<U3", false, "(130,)", std::string(1560, ' '))), HasSubstr("\"<U3\""));
  EXPECT_THAT(error_of(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (130,), }", "")),
              HasSubstr("records"));
  EXPECT_THAT(error_of(npy("<f4", false, "()", "1234")), HasSubstr("one number"));
  EXPECT_THAT(error_of(npy("<f4", false, "(0, 3)", "")), HasSubstr("0 samples"));
  EXPECT_THAT(error_of(npy("<f4", false, "(130, 0)", "")), HasSubstr("without elements"));
  EXPECT_THAT(error_of(npy("<f4", false, "(130, -3)", "")), HasSubstr("its shape"));
  EXPECT_THAT(error_of(npy("<f4", false, "(99999999999, 99999999999)", "")), HasSubstr("its shape"));
  EXPECT_THAT(error_of(npy("<f4", false, "(0, 99999999999, 99999999999)", "")), HasSubstr("its shape"));
  EXPECT_THAT(error_of(npy("<f4", false, "(1,1,1,1,1,1,1,1,1,1)", "1234")), HasSubstr("dimensions"));
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'shape': (130,), }", "")), HasSubstr("is missing"));
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (130,), }", "")),
              HasSubstr("fortran_order"));
  std::string version = good;
  version[6] = 9;
  EXPECT_THAT(error_of(version), HasSubstr("version"));
}

TEST_F(Npy, RanksMakeWhatOneProcessMakes) {
  convert(npy("<f4", true, "(130, 3, 5)", elements<float>(true)));
  const auto expected = files_below(out_);
  for (const int size : {1, 2, 3, 4}) {
    std::filesystem::remove_all(out_);
    by_ranks(size, [&](const JobRank& me) {
      return convert_npy(folder_.path() / "x.npy", folder_.path() / "y.npy", options(me)).shards;
    });
    EXPECT_EQ(files_below(out_), expected) << size;
  }
}

TEST_F(Npy, ChangedSourcesAreAnotherConversion) {
  write("x.npy", npy("<f4", false, "(130, 3, 5)", elements<float>(false)));
  const auto convert_as = [&](const JobRank& me) {
    return convert_npy(folder_.path() / "x.npy", folder_.path() / "y.npy", options(me));
  };
  EXPECT_FALSE(convert_as({0, 2, "a"}).complete);
  write("x.npy", npy("<f4", false, "(130, 3, 5)", elements<float>(false)) + "more");
  EXPECT_THAT(message_of<UsageError>([&] { convert_as({}); }), HasSubstr("beginnings of another"));
}

class Npz : public Npy {
 protected:
  ShardTable convert_zip(const std::string& content, const std::string& x = "x") {
    std::filesystem::remove_all(out_);
    return convert_npz(write("a.npz", content), x, "y", options()).tables.at(0);
  }
  std::vector<test::ZipEntry> entries(bool fortran) const {
    return {{"x.npy", npy("<f4", fortran, "(130, 3, 5)", elements<float>(fortran))}, {"y.npy", labels_}};
  }
};

TEST_F(Npz, StoredAndDeflatedOfBothFormats) {
  for (const bool deflate : {false, true}) {
    for (const bool zip64 : {false, true}) {
      expect_samples<float>(convert_zip(test::zip(entries(deflate), deflate, zip64)), DType::kFloat32);
    }
  }
  const auto expected = files_below(out_);
  for (const int size : {2, 3}) {
    std::filesystem::remove_all(out_);
    by_ranks(size,
             [&](const JobRank& me) { return convert_npz(folder_.path() / "a.npz", "x", "y", options(me)).shards; });
    EXPECT_EQ(files_below(out_), expected) << size;
  }
}

TEST_F(Npz, ArraysThatAreNotThereAreNamed) {
  const std::string content = test::zip(entries(false), false);
  EXPECT_THAT(message_of<DataError>([&] { convert_zip(content, "z"); }),
              AllOf(HasSubstr("no array \"z\""), HasSubstr("x, y"), HasSubstr("--x")));
}

TEST_F(Npz, DamageIsNamed) {
  const auto use = [&](const std::string& content) {
    const std::string error = message_of<DataError>([&] { convert_zip(content); });
    EXPECT_FALSE(std::filesystem::exists(out_));
    return error;
  };
  const std::string good = test::zip(entries(false), true);
  EXPECT_THAT(use(good.substr(0, good.size() / 2)), AllOf(HasSubstr("a.npz"), HasSubstr("no ZIP directory")));
  EXPECT_THAT(use(good.substr(100)), HasSubstr("damaged or truncated"));
  for (const std::size_t at : {std::size_t{0}, std::size_t{60}, good.size() - 57, good.size() - 12}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x20);
    EXPECT_THAT(use(bad), HasSubstr("a.npz")) << at;
  }
}

}  // namespace
}  // namespace mn::data

// IDX files: good ones, raw and gzip, and every way to be bad.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/data/dataset.hpp>
#include <mn/data/idx.hpp>
#include <mn/data/memory_dataset.hpp>

#include "tests/support/folders.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using test::message_of;
using testing::AllOf;
using testing::HasSubstr;
using namespace std::string_literals;

/// `extents` and as many elements as they call for.
std::string idx(std::vector<std::uint32_t> extents, char type = 8) {
  std::string text = {0, 0, type, static_cast<char>(extents.size())};
  std::size_t total = 1;
  for (const std::uint32_t extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(extent >> shift);
    total *= extent;
  }
  for (std::size_t i = 0; i < total; ++i) text += static_cast<char>(i % 7);
  return text;
}

void write_gzip(const std::filesystem::path& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
}

class Idx : public testing::Test {
 protected:
  std::string read() {
    return message_of<DataError>([&] { (void)read_idx_dataset(images_, labels_); });
  }
  test::TemporaryFolder folder_;
  std::filesystem::path images_ = folder_.path() / "images";
  std::filesystem::path labels_ = folder_.path() / "labels";
};

TEST_F(Idx, ReadsRawAndGzip) {
  test::write_text(images_, idx({10, 3, 2}));
  write_gzip(labels_, idx({10}));
  const auto dataset = read_idx_dataset(images_, labels_);
  EXPECT_EQ(dataset->size(), 10);
  EXPECT_EQ(dataset->spec()[0].shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(dataset->spec().num_classes(), 7);
  RawSamples out;
  const std::vector<std::int64_t> last = {9};
  dataset->read(last, out);
  EXPECT_EQ(out.columns[1].values<std::int64_t>()[0], 9 % 7);
  EXPECT_EQ(out.columns[0].bytes[5], std::byte{59 % 7});
}

TEST_F(Idx, NamesWhatIsWrong) {
  test::write_text(labels_, idx({10}));
  const std::string good = idx({10, 3, 2});

  EXPECT_THAT(read(), AllOf(HasSubstr("cannot open " + images_.string()), HasSubstr("No such file")));
  test::write_text(images_, "garbage that is not IDX");
  EXPECT_THAT(read(), AllOf(HasSubstr(images_.string()), HasSubstr("magic")));
  test::write_text(images_, "");
  EXPECT_THAT(read(), HasSubstr("magic"));
  test::write_text(images_, idx({10, 3, 2}, 13));
  EXPECT_THAT(read(), HasSubstr("type 13"));
  test::write_text(images_, idx({10}));
  EXPECT_THAT(read(), HasSubstr("swapped"));
  test::write_text(images_, good.substr(0, 9));
  EXPECT_THAT(read(), HasSubstr("header is incomplete"));
  test::write_text(images_, good.substr(0, good.size() - 1));
  EXPECT_THAT(read(), AllOf(HasSubstr("truncated"), HasSubstr("holds 59 bytes"), HasSubstr("says 60")));
  test::write_text(images_, good + "x");
  EXPECT_THAT(read(), HasSubstr("too long"));
  test::write_text(images_, idx({11, 3, 2}));
  EXPECT_THAT(read(), AllOf(HasSubstr("11 samples"), HasSubstr("10 labels")));
  test::write_text(images_, idx({10, 0, 2}));
  EXPECT_THAT(read(), AllOf(HasSubstr(images_.string()), HasSubstr("extent 1 is 0")));
  test::write_text(images_, "\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s);
  EXPECT_THAT(read(), HasSubstr("impossible"));
}

TEST_F(Idx, NamesDamagedGzip) {
  test::write_text(labels_, idx({4000}));
  write_gzip(images_, idx({4000, 3, 2}));
  EXPECT_EQ(read(), "");
  const auto bytes = std::filesystem::file_size(images_);
  std::filesystem::resize_file(images_, bytes / 2);
  EXPECT_THAT(read(), AllOf(HasSubstr(images_.string()), HasSubstr("damaged or truncated")));
  std::filesystem::resize_file(images_, bytes);  // the rest is zeros now
  EXPECT_THAT(read(), HasSubstr("damaged or truncated"));
}

TEST(Mnist, TheShippedFilesAreTheOriginals) {
  const std::filesystem::path folder = test::source_folder() / "data/mnist";
  struct Expected {
    const char* name;
    std::size_t bytes;
    std::uint32_t crc;
  };
  for (const auto& [name, bytes, crc] : {Expected{"train-images-idx3-ubyte.gz", 47040016, 4036779772},
                                         Expected{"train-labels-idx1-ubyte.gz", 60008, 1184566862},
                                         Expected{"t10k-images-idx3-ubyte.gz", 7840016, 895158699},
                                         Expected{"t10k-labels-idx1-ubyte.gz", 10008, 1076523232}}) {
    const auto content = data::read_maybe_gzip(folder / name);
    EXPECT_EQ(content.size(), bytes) << name;
    EXPECT_EQ(crc32c(content), crc) << name;
  }
}

}  // namespace
}  // namespace mn

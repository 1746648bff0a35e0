// Directories of ZIP archives: in memory and in files, of both sizes of numbers, and damaged.
#include <algorithm>
#include <span>

#include <gmock/gmock.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/zip.hpp>

#include "tests/data/array_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

const std::vector<test::ZipEntry> kEntries = {
    {"a.npy", std::string(3000, 'a')}, {"folder/b", ""}, {"a.npy", "the second of that name"}};

std::vector<ZipMember> members_of(std::string_view archive) {
  return read_zip_directory(archive, "FILE", "the writer");
}

std::string error_of(std::string_view archive) {
  const std::string error = test::message_of<DataError>([&] { members_of(archive); });
  EXPECT_EQ(std::ranges::count(error, '\n'), 0) << error;
  return error;
}

void expect_entries(const std::vector<ZipMember>& members, const std::string& archive, bool deflated) {
  ASSERT_EQ(members.size(), kEntries.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::string& content = kEntries[i].content;
    const std::string stored = deflated ? test::deflated(content) : content;
    EXPECT_EQ(members[i].name, kEntries[i].name);
    EXPECT_EQ(members[i].method, deflated ? ZipMember::Method::kDeflated : ZipMember::Method::kStored);
    EXPECT_EQ(members[i].crc, crc32_gzip(std::as_bytes(std::span(content))));
    EXPECT_EQ(members[i].bytes, content.size());
    EXPECT_EQ(archive.substr(members[i].begin, members[i].stored_bytes), stored);
  }
}

TEST(Zip, MembersInMemoryAndInAFile) {
  const test::TemporaryFolder folder;
  for (const bool deflated : {false, true}) {
    for (const bool zip64 : {false, true}) {
      const std::string archive = test::zip(kEntries, deflated, zip64);
      expect_entries(members_of(archive), archive, deflated);
      test::write_text(folder.path() / "a.zip", archive);
      expect_entries(read_zip_directory(File(folder.path() / "a.zip", File::Mode::kRead), "it"), archive, deflated);
    }
  }
  EXPECT_TRUE(members_of(test::zip({}, false)).empty());
}

TEST(Zip, ACommentMayFollow) {
  std::string archive = test::zip(kEntries, false);
  const std::string comment = "PK\5\6 is how the end of an archive begins";
  archive.replace(archive.size() - 2, 2, test::number(static_cast<std::uint16_t>(comment.size())) + comment);
  expect_entries(members_of(archive), archive, false);
  EXPECT_THAT(error_of(archive + "more"), HasSubstr("it has no ZIP directory"));
}

TEST(Zip, AnArchiveInAnArchiveIsNotTakenForIt) {
  const std::string outer = test::zip({{"inner.zip", test::zip(kEntries, false)}, {"b", "b"}}, false);
  EXPECT_EQ(members_of(outer).size(), 2U);
  EXPECT_THAT(error_of(outer.substr(0, outer.size() - 1)), HasSubstr("it has no ZIP directory"));
}

TEST(Zip, OtherMethodsAreNamed) {
  const std::string good = test::zip({{"a", "abc"}}, false);
  const std::size_t entry = good.rfind("PK\1\2");
  for (const auto& [at, value] : {std::pair(8, 1), std::pair(10, 12)}) {  // encrypted, bzip2
    std::string archive = good;
    archive[entry + at] = static_cast<char>(value);
    EXPECT_EQ(members_of(archive).at(0).method, ZipMember::Method::kOther);
  }
}

TEST(Zip, TruncationAndDamageAreOneLine) {
  EXPECT_EQ(error_of("no archive"), "FILE is cut off, or is not what the writer writes: it has no ZIP directory");
  for (const bool zip64 : {false, true}) {
    const std::string good = test::zip(kEntries, false, zip64);
    for (std::size_t bytes = 0; bytes < good.size(); bytes += 1 + bytes / 50) {
      EXPECT_THAT(error_of(good.substr(0, bytes)), StartsWith("FILE is cut off")) << bytes;
    }
    EXPECT_THAT(error_of(good.substr(5)), AllOf(StartsWith("FILE is damaged"), EndsWith("copy it again")));
    for (std::size_t at = good.find("PK\1\2"); at < good.size(); ++at) {
      for (const int bit : {0, 5, 7}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 1 << bit);
        const std::string error = error_of(bad);
        EXPECT_TRUE(error.empty() || error.starts_with("FILE is ")) << error;
      }
    }
  }
}

TEST(Zip, MembersOutsideOfItAreNamed) {
  const std::string good = test::zip({{"a\nb", "abc"}}, false);
  const std::size_t entry = good.rfind("PK\1\2");
  const auto with = [&](std::size_t at, const std::vector<std::uint32_t>& values) {
    std::string archive = good;
    return archive.replace(entry + at, 4 * values.size(), test::bytes_of(values));
  };
  EXPECT_EQ(error_of(with(20, {1000, 1000})), R"(FILE is damaged or truncated ("a\nb"): copy it again)");
  EXPECT_EQ(error_of(with(24, {4})), R"(FILE is damaged or truncated ("a\nb"): copy it again)") << "stored, but longer";
  EXPECT_THAT(error_of(with(42, {1000})), HasSubstr("a part of it lies outside of it"));
  EXPECT_THAT(error_of(with(42, {1})), HasSubstr("a member's header"));
  EXPECT_THAT(error_of(with(42, {~std::uint32_t{0}})), HasSubstr("its directory")) << "without a ZIP64 field";
}

}  // namespace
}  // namespace mn

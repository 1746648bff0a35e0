#include <chrono>
#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }

  test::TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
};

TEST_F(FileTest, ReadsWhatWasWritten) {
  const std::string bytes("a\0b\n", 4);
  write_file(folder_ / "file", bytes);
  EXPECT_EQ(read_file(folder_ / "file"), bytes);
  write_file(folder_ / "file", "");
  EXPECT_EQ(read_file(folder_ / "file"), "");
  EXPECT_EQ(files(), 1);
}

TEST_F(FileTest, WithoutCommitTheOldContentStays) {
  write_file(folder_ / "file", "old");
  {
    AtomicFile file(folder_ / "file");
    file.write("new");
    EXPECT_EQ(read_file(folder_ / "file"), "old");
  }
  EXPECT_EQ(read_file(folder_ / "file"), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(FileTest, ErrorsNameTheFileAndTheCause) {
  const auto message = [](const auto& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message([&] { write_file(folder_ / "no" / "file", "x"); }),
              ContainsRegex("/no/\\.file\\..*: No such file"));
  EXPECT_THAT(message([&] { static_cast<void>(read_file(folder_ / "absent")); }), HasSubstr("absent: No such file"));
  EXPECT_THAT(message([&] { static_cast<void>(read_file(folder_)); }), HasSubstr("folder"));
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message([&] { static_cast<void>(read_file(folder_ / "pipe")); }),
              HasSubstr("pipe: it is not a regular file"));
  EXPECT_THAT(message([&] { write_file(folder_ / "pipe", "x"); }), HasSubstr("pipe is a device, a pipe or a socket"));
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
  fs::create_symlink("pipe", folder_ / "link");
  EXPECT_THAT(message([&] { write_file(folder_ / "link", "x"); }), HasSubstr("link is a device, a pipe or a socket"));
  EXPECT_THAT(message([&] { AtomicFile("/dev/full/file"); }), ContainsRegex("/dev/full/\\.file\\..*: Not a directory"));
}

TEST_F(FileTest, AKilledWriterLeavesAWholeFile) {
  const fs::path path = folder_ / "file";
  write_file(path, std::string(100'000, 'a'));
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (char c = 'a';; c = c == 'z' ? 'a' : static_cast<char>(c + 1)) write_file(path, std::string(100'000, c));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string content = read_file(path);
    EXPECT_EQ(content, std::string(100'000, content.empty() ? '?' : content[0]));
  }
  remove_abandoned_files(folder_);
  EXPECT_EQ(files(), 1);
}

/// Two jobs in one folder, say.
TEST_F(FileTest, EachWriterHasAFileOfItsOwn) {
  AtomicFile one(folder_ / "file");
  one.write("one");
  AtomicFile other(folder_ / "file");
  other.write("other, longer");
  const fs::path old = folder_ / ".file.other-host.1.0123456789abcdef.tmp";
  write_file(old, "of another host, and new");
  remove_abandoned_files(folder_);
  one.commit();
  EXPECT_EQ(read_file(folder_ / "file"), "one");
  other.commit();
  EXPECT_EQ(read_file(folder_ / "file"), "other, longer");
  EXPECT_EQ(files(), 2);
  const char* of_others[] = {".notes.tmp", ".a.b.1.0.tmp", ".a.1.0123456789abcdef.tmp", "a.b.1.0123456789abcdef.tmp"};
  for (const char* name : of_others) write_file(folder_ / name, "another program's");
  for (const auto& entry : fs::directory_iterator(folder_)) {
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(2));
  }
  remove_abandoned_files(folder_);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_EQ(files(), 1 + std::ssize(of_others));
}

/// In a shared folder, another user's link with the temporary name could lead to a file of this user.
TEST_F(FileTest, TheNextTemporaryNameCannotBeGuessed) {
  write_file(folder_ / "own", "kept");
  std::string name = TemporaryFile(folder_ / "file").path().filename().string();
  const auto number = name.find_last_of('.', name.size() - 5) + 1;
  for (int next = 0; next < 100; ++next) {
    fs::create_symlink("own", folder_ / (name.substr(0, number) + std::to_string(next) + ".tmp"));
  }
  write_file(folder_ / "file", "new");
  EXPECT_EQ(read_file(folder_ / "own"), "kept");
  EXPECT_FALSE(fs::is_symlink(folder_ / "file"));
}

}  // namespace
}  // namespace mn

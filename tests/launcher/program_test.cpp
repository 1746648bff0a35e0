#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "launcher/facts/find_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

class ProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"here/jobs/mnist", "build/jobs", "bin"}) fs::create_directories(root_ / folder);
  }

  fs::path put(const std::string& name, bool executable = true) {
    const fs::path file = root_ / name;
    std::ofstream(file) << "#!/bin/sh\n";
    fs::permissions(file, executable ? fs::perms::owner_all : fs::perms::owner_read);
    return file;
  }
  fs::path find(const std::string& name) {
    return find_program(name, root_ / "here", root_ / "build", (root_ / "bin").string() + ":/nowhere");
  }
  int exit_code_of(const std::string& name) {
    try {
      static_cast<void>(find(name));
    } catch (const ProgramError& error) {
      text_ = error.what();
      return error.exit_code();
    }
    return 0;
  }

  test::TemporaryFolder folder_;
  const fs::path root_ = folder_.path();
  std::string text_;  ///< the text of the last error
};

TEST_F(ProgramTest, AFolderOfThatNameIsPassedOver) {
  const auto built = put("build/jobs/mnist");
  EXPECT_EQ(find("jobs/mnist"), built);
}

TEST_F(ProgramTest, ANameWithASlashIsLookedUpHereThenBesideMnlaunch) {
  const auto beside = put("build/jobs/tool");
  EXPECT_EQ(find("jobs/tool"), beside);
  const auto local = put("here/jobs/tool");
  EXPECT_EQ(find("jobs/tool"), local);
  const auto here = put("here/tool");
  EXPECT_EQ(find("./tool"), here);
}

TEST_F(ProgramTest, ANameWithoutASlashIsNeverAFileOfTheCurrentFolder) {
  put("here/python");
  try {
    static_cast<void>(find("python"));
    ADD_FAILURE() << "found";
  } catch (const ProgramError& error) {
    EXPECT_EQ(error.exit_code(), 127);
    EXPECT_NE(std::string(error.what()).find("./python is the one of the current folder"), std::string::npos);
  }
  const auto beside = put("build/python");
  EXPECT_EQ(find("python"), beside);
  const auto in_path = put("bin/python");
  EXPECT_EQ(find("python"), in_path);
}

TEST_F(ProgramTest, AnAbsoluteNameIsLookedUpNowhereElse) {
  put("build/tool");
  EXPECT_EQ(exit_code_of("/nowhere/tool"), 127);
  EXPECT_EQ(text_, "program \"/nowhere/tool\" was not found; build it, or give its path");
}

TEST_F(ProgramTest, PathIsNotSearchedForNamesWithASlash) {
  fs::create_directories(root_ / "bin/jobs");
  put("bin/jobs/x");
  EXPECT_EQ(exit_code_of("jobs/x"), 127);
}

TEST_F(ProgramTest, ExitStatusesAreThoseOfShells) {
  EXPECT_EQ(exit_code_of("absent"), 127);
  fs::permissions(put("here/data"), fs::perms::owner_read);
  EXPECT_EQ(exit_code_of("./data"), 126);
  EXPECT_EQ(exit_code_of((root_ / "here/data").string()), 126);
}

}  // namespace
}  // namespace mn::launcher

/// A folder in place of the root file system.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <mn/core/environment.hpp>

#include "launcher/facts/surroundings.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::launcher {

class FactsFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    here_.root = folder_.path();
    here_.folder = std::filesystem::current_path();
    here_.program = executable_path();
    here_.arguments = {"facts_test"};
  }
  void put(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / file).parent_path());
    std::ofstream(folder_.path() / file) << text;
  }

  const test::TemporaryFolder folder_;  ///< the folder alone is removed: tests may point here_.root elsewhere
  Surroundings here_;
};

}  // namespace mn::launcher

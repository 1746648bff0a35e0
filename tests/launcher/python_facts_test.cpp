// The facts of a Python program: its version and the versions of its packages, as Python would find them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "facts_fixture.hpp"
#include "launcher/facts/collect.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

/// The system's Python 3.11 in usr/, and an environment made from it in venv/. Each test starts venv/bin/python.
class PythonFactsTest : public FactsFixture {
 protected:
  void SetUp() override {
    FactsFixture::SetUp();
    put("usr/bin/python3.11", "");
    fs::create_directories(root() / "venv/bin");
    fs::create_symlink(root() / "usr/bin/python3.11", root() / "venv/bin/python");
    settle("false");
    package("venv/lib/python3.11/site-packages", "torch-2.11.0+cpu");
    package("venv/lib/python3.11/site-packages", "nvidia_nccl_cu13-2.28.9");
    package("venv/lib/python3.11/site-packages", "pip-23.0.1");
    package("usr/lib/python3/dist-packages", "numpy-1.24.2");
    package("usr/lib/python3/dist-packages", "torch-2.6.0");
    here_.program = root() / "venv/bin/python";
    here_.variables = Variables();
  }
  [[nodiscard]] const fs::path& root() const { return here_.root; }
  void settle(const std::string& sees_base) {
    put("venv/pyvenv.cfg",
        "home = " + (root() / "usr/bin").string() + "\ninclude-system-site-packages = " + sees_base + "\n");
  }
  void package(const std::string& folder, const std::string& name) {
    fs::create_directories(root() / folder / (name + ".dist-info"));
  }
};

TEST_F(PythonFactsTest, AnEnvironmentHidesTheSystemsPackages) {
  EXPECT_THAT(collect_python_facts(here_), UnorderedElementsAre(Pair("python", "3.11"), Pair("torch", "2.11.0+cpu"),
                                                                Pair("nvidia_nccl_cu13", "2.28.9")));
}

TEST_F(PythonFactsTest, TheEnvironmentComesBeforeTheSystemThatItSees) {
  settle("true");
  const auto facts = collect_python_facts(here_);
  EXPECT_EQ(facts.at("torch"), "2.11.0+cpu");
  EXPECT_EQ(facts.at("numpy"), "1.24.2");
}

TEST_F(PythonFactsTest, PythonWithoutAnEnvironmentHasTheSystemsAndTheUsersPackages) {
  here_.program = root() / "usr/bin/python3.11";
  EXPECT_THAT(collect_python_facts(here_),
              UnorderedElementsAre(Pair("python", "3.11"), Pair("torch", "2.6.0"), Pair("numpy", "1.24.2")));
  package("home/.local/lib/python3.11/site-packages", "torch-2.9.1");
  here_.variables.set("HOME", (root() / "home").string());
  EXPECT_EQ(collect_python_facts(here_).at("torch"), "2.9.1");
  here_.variables.set("PYTHONNOUSERSITE", "1");
  EXPECT_EQ(collect_python_facts(here_).at("torch"), "2.6.0");
}

TEST_F(PythonFactsTest, PythonpathComesFirst) {
  package("own", "torch-2.15.0");
  here_.variables.set("PYTHONPATH", (root() / "own").string());
  EXPECT_EQ(collect_python_facts(here_).at("torch"), "2.15.0");
}

TEST_F(PythonFactsTest, AScriptHasThePythonOfItsFirstLine) {
  put("venv/bin/accelerate", "#!" + (root() / "venv/bin/python").string() + "\nimport sys\n");
  here_.program = root() / "venv/bin/accelerate";
  EXPECT_EQ(collect_python_facts(here_).at("torch"), "2.11.0+cpu");
  put("train", "#!/usr/bin/env python\n");
  here_.program = root() / "train";
  EXPECT_THAT(collect_python_facts(here_), IsEmpty());
  fs::permissions(root() / "usr/bin/python3.11", fs::perms::owner_all);
  here_.variables.set("PATH", "/nowhere:" + (root() / "venv/bin").string());
  EXPECT_EQ(collect_python_facts(here_).at("torch"), "2.11.0+cpu");
}

TEST_F(PythonFactsTest, OtherProgramsHaveNone) {
  here_.program = executable_path();
  EXPECT_THAT(collect_python_facts(here_), IsEmpty());
  here_.program.clear();
  EXPECT_THAT(collect_python_facts(here_), IsEmpty());
}

}  // namespace
}  // namespace mn::launcher

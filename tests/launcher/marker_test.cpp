// The folder of results, and its marker file, which shows if all nodes see one folder.
#include <chrono>
#include <csignal>

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "facts_fixture.hpp"
#include "launcher/facts/surroundings.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

using MarkerTest = FactsFixture;

TEST_F(MarkerTest, ResultsGoWhereTheArgumentsSay) {
  put("work/file", "");
  here_.folder = here_.root / "work";
  EXPECT_EQ(output_folder(here_), here_.root / "work");
  here_.arguments = {"job", "--out", "new/result"};
  EXPECT_EQ(output_folder(here_), here_.root / "work");
  here_.arguments = {"job", "--out=" + here_.root.string()};
  EXPECT_EQ(output_folder(here_), here_.root);
}

TEST_F(MarkerTest, AMarkerOfAStartThatWasKilledIsRemovedByALaterOne) {
  put(".mnlaunch-old", "");
  put(".mnlaunch-young", "");
  put("mnlaunch-old", "");
  for (const char* name : {".mnlaunch-old", "mnlaunch-old"}) {
    fs::last_write_time(here_.root / name, fs::file_time_type::clock::now() - std::chrono::hours(2));
  }
  const Marker marker(here_.root, "7");
  EXPECT_FALSE(fs::exists(here_.root / ".mnlaunch-old"));
  EXPECT_TRUE(fs::exists(here_.root / ".mnlaunch-young"));
  EXPECT_TRUE(fs::exists(here_.root / "mnlaunch-old"));
}

TEST_F(MarkerTest, ASignalThatEndsTheProcessRemovesItsMarker) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const auto cut_off = [&] {
      const Marker marker(here_.root, "7");
      if (!fs::exists(here_.root / marker.name())) _exit(1);
      raise(signal);
      _exit(2);
    };
    EXPECT_EXIT(cut_off(), ::testing::KilledBySignal(signal), "");
    EXPECT_FALSE(fs::exists(here_.root / ".mnlaunch-7")) << signal;
  }
  { const Marker marker(here_.root, "7"); }
  EXPECT_EXIT(raise(SIGTERM), ::testing::KilledBySignal(SIGTERM), "") << "the former action is back";
}

TEST_F(MarkerTest, AnIgnoredSignalStaysIgnored) {
  const auto go_on = [&] {
    std::signal(SIGHUP, SIG_IGN);  // as nohup does
    const Marker marker(here_.root, "7");
    raise(SIGHUP);
    _exit(0);
  };
  EXPECT_EXIT(go_on(), ::testing::ExitedWithCode(0), "");
}

TEST_F(MarkerTest, AMarkerLastsForItsScope) {
  std::string name;
  {
    const Marker marker(here_.root, "7");
    name = marker.name();
    EXPECT_TRUE(fs::exists(here_.root / name));
  }
  EXPECT_FALSE(fs::exists(here_.root / name));
  EXPECT_EQ(Marker(here_.root / "absent", "7").name(), "");
}

}  // namespace
}  // namespace mn::launcher

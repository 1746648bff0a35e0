// The facts of a program: build, libraries, MPI and script; and facts of further files.
#include <algorithm>
#include <fstream>
#include <iterator>

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "facts_fixture.hpp"
#include "launcher/facts/collect.hpp"
#include "launcher/facts/elf.hpp"
#include "launcher/facts/find_files.hpp"
#include "launcher/place/pmix_library.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using ProgramFactsTest = FactsFixture;

TEST_F(ProgramFactsTest, ALoaderThatTakesLongIsWaitedForAndThenNamed) {
  EXPECT_GE(here_.loader_patience, std::chrono::seconds(10)) << "3 s are too few for a cold network file system";
  here_.loader_patience = std::chrono::milliseconds(0);
  const auto facts = collect_program_facts(here_);
  EXPECT_EQ(facts.libraries, std::nullopt);
  EXPECT_NE(facts.program.path, std::nullopt);
}

TEST_F(ProgramFactsTest, LibrariesAreFoundWithoutBeingLoaded) {
  const auto find = [&](const std::string& name, const std::string& path = "") {
    return find_library(name, path, here_.root);
  };
  EXPECT_EQ(find("libx.so"), std::nullopt);
  put("usr/lib/libx.so", "x");
  EXPECT_EQ(find("libx.so"), here_.root / "usr/lib/libx.so");
  put("opt/a/libx.so", "x");
  const std::string folder = (here_.root / "opt/a").string();
  EXPECT_EQ(find("libx.so", "/nowhere::" + folder), here_.root / "opt/a/libx.so");
  const auto libc = find_library("libc.so.6", "", "/");  // through this machine's cache
  ASSERT_TRUE(libc);
  EXPECT_TRUE(read_elf(*libc));
}

TEST_F(ProgramFactsTest, ADamagedCacheOfTheLoaderIsReadWithoutHarm) {
  std::ifstream file("/etc/ld.so.cache", std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  for (const std::size_t size : {std::size_t{0}, std::size_t{19}, std::size_t{47}, bytes.size() / 2}) {
    put("etc/ld.so.cache", bytes.substr(0, std::min(size, bytes.size())));
    EXPECT_EQ(find_library("libno-such.so", "", here_.root), std::nullopt);
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(bytes.size(), 4096); i += 5) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0xff);
    put("etc/ld.so.cache", damaged);
    static_cast<void>(find_library("libc.so.6", "", here_.root));
  }
}

TEST_F(ProgramFactsTest, ThePluginOfNcclIsKnownByNameAndBuild) {
  put("plugin/libnccl-net-foo.so", "one build");
  here_.variables = Variables({{"LD_LIBRARY_PATH", (here_.root / "plugin").string()}, {"NCCL_NET_PLUGIN", "foo"}});
  const auto before = collect_nccl_facts(here_).net_plugin.value();
  EXPECT_THAT(before, ::testing::StartsWith("libnccl-net-foo.so "));
  put("plugin/libnccl-net-foo.so", "another build");
  EXPECT_NE(collect_nccl_facts(here_).net_plugin, before);
  here_.variables.set("NCCL_NET_PLUGIN", "none");
  EXPECT_EQ(collect_nccl_facts(here_).net_plugin, "");
}

/// Bytes that the process has asked the kernel for.
std::uintmax_t bytes_read() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  std::uintmax_t bytes = 0;
  while (counters >> name >> bytes && name != "rchar:") continue;
  return bytes;
}

TEST_F(ProgramFactsTest, PiecesOfALargeFileWithoutABuildIdAreRead) {
  constexpr std::uintmax_t kBytes = 100 << 20;
  put("library", "first");
  const fs::path file = here_.root / "library";
  fs::resize_file(file, kBytes);
  const auto put_at = [&](std::uintmax_t at) {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(at));
    out << "other";
  };
  const auto begin = bytes_read();
  const auto id = file_id(file, {});
  EXPECT_LT(bytes_read() - begin, kBytes / 4);
  EXPECT_EQ(file_id(file, {}), id);
  put_at(kBytes - 5);
  const auto other_end = file_id(file, {});
  EXPECT_NE(other_end, id);
  put_at(0);
  EXPECT_NE(file_id(file, {}), other_end);
  EXPECT_EQ(file_id(here_.root / "absent", {}), std::nullopt);
}

TEST_F(ProgramFactsTest, TheProgramIsKnownByItsBuildAndItsLibraries) {
  const auto facts = collect_program_facts(here_);
  EXPECT_EQ(facts.program.path, here_.program.string());
  EXPECT_EQ(facts.program.id.value().size(), 16u);
  EXPECT_EQ(facts.program.size, fs::file_size(here_.program));
  EXPECT_TRUE(facts.libraries.value().contains("libc.so.6"));
  EXPECT_TRUE(facts.missing.empty());
  EXPECT_EQ(facts.mpi, "");
}

TEST_F(ProgramFactsTest, AScriptIsKnownByItsContent) {
  put("train.py", "print(1)\n");
  here_.arguments = {"python", "-u", (here_.root / "train.py").string()};
  const auto before = collect_program_facts(here_).script;
  put("train.py", "print(2)\n");
  EXPECT_NE(collect_program_facts(here_).script, before);
}

TEST_F(ProgramFactsTest, AScriptTellsTheMpiOfWhatItStarts) {
  const auto mpi_of = [&](const std::string& text) {
    put("start.sh", text);
    here_.arguments = {"sh", (here_.root / "start.sh").string()};
    return collect_program_facts(here_).script_mpi;
  };
  EXPECT_EQ(mpi_of("#!/bin/sh\nexec /bin/true\n"), "");
  EXPECT_EQ(mpi_of("from mpi4py import MPI\n"), "mpi4py");
  const std::string program = (executable_path().parent_path().parent_path() / "mnlaunch-selftest").string();
  EXPECT_NE(mpi_of("#!/bin/sh\nexec \"" + program + "\" --json\n"), "");
}

TEST_F(ProgramFactsTest, AProgramTellsWhereItsMpiIs) {
  const auto build = executable_path().parent_path().parent_path();
  EXPECT_THAT(folders_of_mpi(executable_path(), ""), IsEmpty());
  const auto folders = folders_of_mpi(build / "mnlaunch-selftest", "");
  ASSERT_FALSE(folders.empty());
  const auto names = loader_texts(build / "mnlaunch-selftest", DT_NEEDED);
  EXPECT_TRUE(std::ranges::any_of(names, [&](const auto& name) { return fs::exists(folders[0] / name); }));
  put("private/libpmix.so.2", "");
  EXPECT_EQ(pmix_libraries(Variables(), {here_.root / "private"}).front(), here_.root / "private/libpmix.so.2");
}

TEST_F(ProgramFactsTest, NoLoaderRunsTheProgram) {
  // As musl's: the loader lists libraries if an option says so, else runs the program.
  put("ld-musl-x86_64.so.1",
      "#!/bin/sh\n[ \"$1\" = --list ] && echo '  libx.so => /lib/libx.so (0x1)' || touch \"$1\".ran\n");
  const auto loader = here_.root / "ld-musl-x86_64.so.1";
  fs::permissions(loader, fs::perms::owner_all);
  const auto libraries = list_libraries(loader, here_.root / "program", here_.loader_patience);
  EXPECT_FALSE(fs::exists(here_.root / "program.ran"));
  ASSERT_EQ(libraries.size(), 1u);
  EXPECT_EQ(libraries[0].path, "/lib/libx.so");
}

TEST_F(ProgramFactsTest, ElfFilesTellTheirLoaderAndBuild) {
  const auto elf = read_elf(executable_path());
  ASSERT_TRUE(elf);
  EXPECT_THAT(elf->interpreter, HasSubstr("ld-linux"));
  put("text", "not an ELF file, but long enough to hold the header of one, as long as a line may be");
  EXPECT_FALSE(read_elf(here_.root / "text"));
  EXPECT_FALSE(read_elf(here_.root / "absent"));
}

TEST_F(ProgramFactsTest, DamagedElfFilesAreReadWithoutHarm) {
  std::ifstream self(executable_path(), std::ios::binary);
  std::string bytes(4096, '\0');
  self.read(bytes.data(), 4096);
  for (std::size_t i = 64; i < bytes.size(); i += 7) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0xff);
    put("damaged", damaged.substr(0, 64 + i));
    static_cast<void>(read_elf(here_.root / "damaged"));
  }
}

TEST_F(ProgramFactsTest, FilesAreComparedBySizeAndEnds) {
  put("data", std::string(1 << 18, 'a'));
  const auto before = collect_file_facts({here_.root / "data", here_.root / "absent"});
  EXPECT_EQ(before[0].size, 1u << 18);
  EXPECT_FALSE(before[1].exists);
  put("data", std::string((1 << 18) - 1, 'a') + "b");
  EXPECT_NE(collect_file_facts({here_.root / "data"})[0].hash, before[0].hash);
}

}  // namespace
}  // namespace mn::launcher

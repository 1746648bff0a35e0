// The checkpoint file of earlier versions: what is read from it, how damage shows, and which of several is found.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_file.hpp>
#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>

#include "tests/train/checkpoint_helpers.hpp"
#include "tests/train/earlier_file.hpp"

namespace mn {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using toy::message_of;
using toy::on_rank_zero;
using toy::TestFolder;
using toy::world;

const std::vector<std::pair<std::string, std::string>> kSections = {{"model", std::string(1000, 'm')},
                                                                    {"optimizer", std::string("opt\0imizer", 10)},
                                                                    {"extensions", "extensions"},
                                                                    {"rank.0", "rank zero"},
                                                                    {"rank.1", ""},
                                                                    {"rank.2", "rank two"}};

void write_example(const std::filesystem::path& path) {
  write_file(path, test::earlier_checkpoint({{"iteration", 12}}, kSections));
}

/// Without write_file()'s care for power failures, which takes its time.
void put(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

TEST(CheckpointFileTest, ReadsWhatWasWritten) {
  const TestFolder folder(world());
  on_rank_zero([&] {
    write_example(folder.path() / "c");
    const CheckpointFile read(folder.path() / "c");
    EXPECT_EQ(read.about(), json({{"iteration", 12}}));
    EXPECT_EQ(read.ranks(), 3);
    for (const auto& [name, content] : kSections) EXPECT_EQ(read.read(name), content);
    read.check();
  });
}

TEST(CheckpointFileTest, EveryDamagedByteIsFoundAndTheFileNamed) {
  const TestFolder folder(world());
  on_rank_zero([&] {
    const auto path = folder.path() / "c";
    write_example(path);
    const std::string whole = read_file(path);
    for (std::size_t i = 0; i < whole.size(); i += i < 300 ? 1 : 37) {
      std::string broken = whole;
      broken[i] = static_cast<char>(broken[i] ^ 0x20);
      put(path, broken);
      EXPECT_THAT(message_of([&] { CheckpointFile(path).check(); }), HasSubstr(path.string())) << i;
    }
    for (std::size_t length = 0; length < whole.size(); length += 13) {
      put(path, whole.substr(0, length));
      EXPECT_THAT(message_of([&] { CheckpointFile(path).check(); }), HasSubstr("damaged")) << length;
    }
    put(path, whole + "x");
    EXPECT_THAT(message_of([&] { CheckpointFile(path).check(); }), HasSubstr("follow its end"));
  });
}

std::filesystem::path earlier_path(const std::filesystem::path& out, int iteration) {
  return out / ("snapshot_iter_" + std::to_string(iteration));
}

TEST(CheckpointFileTest, OldOnesAreFoundByIterationAndRemoved) {
  const TestFolder folder(world());
  on_rank_zero([&] {
    const auto now = std::filesystem::file_time_type::clock::now();
    // In the order in which a copy may write them.
    const std::pair<int, int> ages[] = {{200, 30}, {100, 20}, {7, 10}};
    for (const auto& [iteration, age] : ages) {
      write_example(earlier_path(folder.path(), iteration));
      std::filesystem::last_write_time(earlier_path(folder.path(), iteration), now - std::chrono::seconds(age));
    }
    write_file(folder.path() / "snapshot_iter_9.bak", "another file");
    EXPECT_THAT(find_checkpoints(folder.path()),
                ElementsAre(earlier_path(folder.path(), 200), earlier_path(folder.path(), 100),
                            earlier_path(folder.path(), 7)));
    const auto unfinished = folder.path() / ".snapshot_iter_300.other-host.1.0.tmp";
    write_file(unfinished, "half a checkpoint");
    std::filesystem::last_write_time(unfinished, now - std::chrono::hours(2));
    remove_old_checkpoints(folder.path(), 2);
    EXPECT_FALSE(std::filesystem::exists(unfinished));
    EXPECT_THAT(find_checkpoints(folder.path()),
                ElementsAre(earlier_path(folder.path(), 200), earlier_path(folder.path(), 100)));
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "snapshot_iter_9.bak"));
    EXPECT_THAT(find_checkpoints(folder.path() / "absent"), ElementsAre());
  });
}

}  // namespace
}  // namespace mn

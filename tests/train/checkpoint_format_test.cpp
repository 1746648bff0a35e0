// Checkpoints on storage, without libtorch and MPI: what a save leaves that was stopped at any call, or whose calls
// fail, and what a reader says of damage.
#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/format/commit.hpp>
#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/checkpoint/format/tensor_shard_writer.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

#include "tests/support/failing_calls.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

namespace fs = std::filesystem;
using test::CallFault;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kElements = 25;

/// The bytes of each tensor of version `version`.
std::map<std::string, std::vector<std::byte>> content(int version) {
  std::map<std::string, std::vector<std::byte>> tensors;
  for (const char* name : {"model/a", "model/b"}) {
    std::vector<std::byte>& bytes = tensors[name];
    for (std::size_t i = 0; i < kElements * sizeof(float); ++i) bytes.push_back(std::byte(i * 7 + version * 31));
  }
  return tensors;
}

/// "model/a" is cut between two shards.
std::vector<ShardPart> parts_of(std::size_t shard) {
  if (shard == 0) return {{"model/a", "F32", {5, 5}, 0, 12}};
  return {{"model/a", "F32", {5, 5}, 12, kElements}, {"model/b", "F32", {kElements}, 0, kElements}};
}

nlohmann::json write_shard(const fs::path& folder, std::size_t shard, int version) {
  const auto tensors = content(version);
  TensorShardWriter writer(folder / checkpoint_shard_name(shard, 2), parts_of(shard));
  for (const ShardPart& part : parts_of(shard)) {
    writer.write(std::span(tensors.at(part.tensor)).subspan(part.begin * sizeof(float), part.bytes()));
  }
  nlohmann::json description = writer.finish();
  sync_folder(folder);
  return description;
}

/// What two ranks do, one after the other.
void save(const fs::path& path, int version) {
  const fs::path folder = begin_save(path);
  try {
    Manifest manifest{{{"version", version}, {"iteration", version}, {"epoch", 0}, {"epoch_detail", 0.5}}, {}, {}};
    for (std::size_t shard = 0; shard < 2; ++shard) add_shard(manifest, write_shard(folder, shard, version));
    complete(manifest);
    commit_save(folder, path, manifest);
  } catch (...) {
    abandon_save(folder);
    throw;
  }
}

/// The version that a checkpoint holds, once all its bytes are found to be those of that version.
int version_of(const fs::path& path) {
  SavedCheckpoint checkpoint(path);
  checkpoint.check();
  const int version = checkpoint.manifest().about.at("version").get<int>();
  for (const auto& [name, bytes] : content(version)) {
    std::vector<std::byte> read(bytes.size());
    checkpoint.read(name, read);
    EXPECT_EQ(read, bytes) << name;
  }
  return version;
}

int newest_version(const fs::path& out) { return version_of(find_checkpoints(out).at(0)); }

/// Runs `work` in a process that is killed at call `at`; whether it came to its end.
template <class Work>
bool ends_before(const fs::path& folder, std::int64_t at, const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    test::fail_call(folder, at, CallFault::kKill);
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
  return WIFEXITED(status);
}

class SaveTest : public testing::Test {
 protected:
  fs::path step(int iteration) const { return checkpoint_path(out_.path(), iteration); }
  void save_and_prune(int iteration, int version) const {
    save(step(iteration), version);
    remove_old_checkpoints(out_.path(), 1);
  }

  test::TemporaryFolder out_;
};

TEST_F(SaveTest, ReadsWhatWasWrittenAndKeepsTheNewestTheBestAndThePinned) {
  for (int i = 1; i <= 5; ++i) save(step(i), i);
  EXPECT_EQ(version_of(step(3)), 3);
  mark_best(out_.path(), step(2));
  write_file(step(1) / kPinName, "");
  remove_old_checkpoints(out_.path(), 1);
  EXPECT_THAT(find_checkpoints(out_.path()), ElementsAre(step(5), step(2), step(1)));
  EXPECT_EQ(version_of(out_.path() / "snapshot_best"), 2);
  mark_best(out_.path(), step(5));
  remove_old_checkpoints(out_.path(), 1);
  EXPECT_THAT(find_checkpoints(out_.path()), ElementsAre(step(5), step(1)));
}

TEST_F(SaveTest, KilledAtAnyCallTheNewestIsWhole) {
  save(step(1), 1);
  std::int64_t killed = 0;
  for (bool ended = false; !ended; ++killed) {
    ended = ends_before(out_.path(), killed, [&] { save_and_prune(2, 2); });
    EXPECT_THAT(newest_version(out_.path()), AnyOf(1, 2)) << "killed at call " << killed;
    save(step(2), 3);  // what is left of the attempt does no harm
    EXPECT_EQ(newest_version(out_.path()), 3) << "killed at call " << killed;
    remove_checkpoint(step(2));
    if (!is_committed(step(1))) save(step(1), 1);
  }
  EXPECT_GT(killed, 20);
}

/// Whether or not the file system can exchange names.
class ReplaceTest : public SaveTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override { test::refuse_exchanges(GetParam()); }
  void TearDown() override { test::refuse_exchanges(false); }
};
INSTANTIATE_TEST_SUITE_P(Exchange, ReplaceTest, testing::Bool());

TEST_P(ReplaceTest, KilledWhileOneIsReplacedItIsTheOldOrTheNew) {
  save(step(1), 1);
  for (const bool prunes : {false, true}) {
    std::int64_t killed = 0;
    for (bool ended = false; !ended; ++killed) {
      const int before = newest_version(out_.path());
      const int next = before == 1 ? 2 : 1;
      ended = ends_before(out_.path(), killed, [&] { save(step(1), next); });
      if (prunes) remove_old_checkpoints(out_.path(), 1);
      EXPECT_THAT(newest_version(out_.path()), AnyOf(before, next)) << "killed at call " << killed;
    }
    EXPECT_GT(killed, 20);
  }
  remove_old_checkpoints(out_.path(), 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(out_.path() / "ckpt"), {}), 1) << "something is left";
}

TEST_F(SaveTest, AnErrorOfAnyCallIsOneLineAndTheOneBeforeStays) {
  save(step(1), 1);
  for (const int error : {ENOSPC, EIO}) {
    std::int64_t failures = 0;
    for (std::int64_t at = 0;; ++at) {
      test::fail_call(out_.path(), at, CallFault::kError, error);
      const std::string said = test::message_of<DataError>([&] { save(step(2), 2); });
      if (test::stop_failing() <= at) break;
      EXPECT_EQ(newest_version(out_.path()), is_committed(step(2)) ? 2 : 1) << "call " << at;
      EXPECT_EQ(said.find('\n'), std::string::npos);
      if (!said.empty()) {
        EXPECT_THAT(said, AllOf(HasSubstr(out_.path().string()), HasSubstr(std::strerror(error)))) << "call " << at;
        ++failures;
      }
      if (fs::exists(step(2))) remove_checkpoint(step(2));
    }
    EXPECT_GT(failures, 15);
  }
}

TEST_F(SaveTest, ADiskThatStaysFullLeavesTheOneBefore) {
  save(step(1), 1);
  for (std::int64_t at = 0;; ++at) {
    test::fail_call(out_.path(), at, CallFault::kError, ENOSPC, true);
    const std::string said = test::message_of<DataError>([&] { save(step(2), 2); });
    if (test::stop_failing() <= at) break;
    EXPECT_EQ(newest_version(out_.path()), is_committed(step(2)) ? 2 : 1) << "call " << at << ": " << said;
    if (fs::exists(step(2))) remove_checkpoint(step(2));
  }
}

TEST_F(SaveTest, ShortWritesAreContinued) {
  test::fail_call(out_.path(), 0, CallFault::kShort, 0, true);
  save(step(1), 1);
  EXPECT_GT(test::stop_failing(), 0);
  EXPECT_EQ(newest_version(out_.path()), 1);
}

TEST_F(SaveTest, OtherFilesAreNeverRemoved) {
  const fs::path folder = out_.path() / "thesis";
  fs::create_directory(folder);
  test::write_text(folder / "chapter.tex", "text");
  EXPECT_THAT(test::message_of<DataError>([&] { save(folder, 1); }), HasSubstr("chapter.tex"));
  EXPECT_TRUE(fs::exists(folder / "chapter.tex"));
}

class DamageTest : public SaveTest {
 protected:
  void SetUp() override { save(path_, 1); }
  std::string said() const {
    return test::message_of<DataError>([&] { SavedCheckpoint(path_).check(); });
  }

  const fs::path path_ = out_.path() / "c";
};

TEST_F(DamageTest, EveryFlippedByteIsFoundAndNamed) {
  for (const std::string& name :
       {checkpoint_shard_name(0, 2), checkpoint_shard_name(1, 2), std::string(kCheckpointManifestName)}) {
    const fs::path file = path_ / name;
    const std::string header = read_file(file).substr(0, 8);
    std::uint64_t data_begin = 0;
    std::memcpy(&data_begin, header.data(), sizeof data_begin);
    data_begin += sizeof data_begin;
    for (std::uint64_t i = 0; i < fs::file_size(file); ++i) {
      test::flip_byte(file, i);
      const std::string what = said();
      EXPECT_THAT(what, HasSubstr(name)) << i;
      if (name != kCheckpointManifestName && i >= data_begin) {
        EXPECT_THAT(what, HasSubstr("tensor \"model/")) << i;
      }
      test::flip_byte(file, i);
    }
  }
  EXPECT_EQ(said(), "");
}

TEST_F(DamageTest, TruncationsAndMissingFilesAreFoundAndNamed) {
  for (const std::string& name :
       {checkpoint_shard_name(0, 2), checkpoint_shard_name(1, 2), std::string(kCheckpointManifestName)}) {
    const std::string whole = read_file(path_ / name);
    for (std::size_t length = 0; length < whole.size(); length += 5) {
      test::write_text(path_ / name, whole.substr(0, length));
      EXPECT_THAT(said(), HasSubstr(name)) << length;
    }
    test::write_text(path_ / name, whole + "x");
    EXPECT_THAT(said(), HasSubstr(name));
    fs::remove(path_ / name);
    EXPECT_THAT(said(), AnyOf(HasSubstr(name), HasSubstr("there is no checkpoint")));
    test::write_text(path_ / name, whole);
  }
  EXPECT_EQ(said(), "");
}

TEST_F(DamageTest, LinksOutOfTheFolderAreErrors) {
  for (const std::string& name : {checkpoint_shard_name(1, 2), std::string(kCheckpointManifestName)}) {
    fs::rename(path_ / name, out_.path() / "elsewhere");
    fs::create_symlink(out_.path() / "elsewhere", path_ / name);
    EXPECT_NE(said(), "");
    fs::remove(path_ / name);
    fs::rename(out_.path() / "elsewhere", path_ / name);
  }
  EXPECT_EQ(said(), "");
}

TEST_F(DamageTest, ManifestsThatLieAreFound) {
  const Manifest whole = SavedCheckpoint(path_).manifest();
  const auto lie = [&](auto change) {
    Manifest manifest = whole;
    change(manifest);
    return test::message_of<DataError>([&] { (void)parse_manifest(manifest_text(manifest), "FILE"); });
  };
  EXPECT_EQ(lie([](Manifest&) {}), "");
  EXPECT_THAT(lie([](Manifest& m) { m.shards.clear(); }), HasSubstr("no shards"));
  EXPECT_THAT(lie([](Manifest& m) { m.shards[0].bytes += 4; }), HasSubstr("another size"));
  EXPECT_THAT(lie([](Manifest& m) { m.shards[0].header_bytes = ~0ULL; }), HasSubstr("beyond its end"));
  EXPECT_THAT(lie([](Manifest& m) { m.tensors["model/a"].pieces[1].begin = 11; }), HasSubstr("gap or an overlap"));
  EXPECT_THAT(lie([](Manifest& m) { m.tensors["model/a"].pieces.pop_back(); }), HasSubstr("lacks the end"));
  EXPECT_THAT(lie([](Manifest& m) { m.tensors["model/a"].pieces[0].shard = 2; }), HasSubstr("not there"));
  EXPECT_THAT(lie([](Manifest& m) { m.tensors["model/b"].pieces[0].offset = 0; }), HasSubstr("gap or an overlap"));
  EXPECT_THAT(lie([](Manifest& m) { m.tensors["model/b"].dtype = "F99"; }), HasSubstr("unknown dtype"));
  EXPECT_THAT(lie([](Manifest& m) { m.tensors["model/b"].shape = {1LL << 62, 4}; }), HasSubstr("impossible shape"));
  EXPECT_THAT(lie([](Manifest& m) { m.tensors["model/c"] = m.tensors["model/b"]; }), HasSubstr("gap or an overlap"));
}

}  // namespace
}  // namespace mn

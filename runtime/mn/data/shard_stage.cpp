#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iomanip>
#include <sstream>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/fd.hpp>
#include <mn/core/file.hpp>
#include <mn/core/log.hpp>
#include <mn/core/signal_stack.hpp>
#include <mn/core/uninitialized.hpp>
#include <mn/data/retry.hpp>
#include <mn/data/shard_stage.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kCopiedPieceBytes = 4 << 20;
constexpr auto kLookAgain = std::chrono::milliseconds(500);  // for copies that others of the node make

std::string hexadecimal(std::uint64_t number) {
  std::ostringstream text;
  text << std::hex << std::setw(16) << std::setfill('0') << number;
  return text.str();
}

std::size_t shards_within(const ShardTable& table, std::int64_t budget) {
  std::size_t count = 0;
  for (std::int64_t bytes = 0; count < table.shards().size(); ++count) {
    bytes += table.shards()[count].bytes;
    if (budget > 0 && bytes > budget) break;
  }
  return count;
}

/// The file, locked by this process; no value if another one has the lock, or has just finished.
std::optional<Fd> lock_temporary(const fs::path& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (fd.get() < 0) throw FileError(with_errno("cannot write " + path.string(), errno), errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::nullopt;
    throw FileError(with_errno("cannot lock " + path.string(), errno), errno);
  }
  struct stat named = {}, opened = {};
  const bool is_same =
      ::stat(path.c_str(), &named) == 0 && ::fstat(fd.get(), &opened) == 0 && named.st_ino == opened.st_ino;
  if (!is_same) return std::nullopt;
  return fd;
}

}  // namespace

ShardStage::ShardStage(const ShardTable& table, const StageOptions& options, int part, int parts)
    : folder_(options.folder / ("mn-stage-" + hexadecimal(table.hash()))),
      by_room_(options.bytes == 0),
      shards_(shards_within(table, options.bytes)) {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    shards_[i].from = table.path(i);
    shards_[i].to = folder_ / table.shards()[i].file;
    shards_[i].bytes = table.shards()[i].bytes;
  }
  thread_ = std::jthread([this, part, parts](const std::stop_token& stop) { work(stop, part, parts); });
}

std::optional<fs::path> ShardStage::copy_of(std::size_t shard) const {
  if (shard >= shards_.size() || shards_[shard].state != State::kReady) return std::nullopt;
  return shards_[shard].to;
}

void ShardStage::drop(std::size_t shard, const std::string& why) {
  if (shard >= shards_.size()) return;
  shards_[shard].state = State::kDropped;
  if (!warned_.exchange(true)) {
    log_warning("a copy of a shard is no good, its samples are read from shared storage: " + why);
  }
}

std::size_t ShardStage::copies() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(shards_, [](const Shard& shard) { return shard.state == State::kReady; }));
}

void ShardStage::work(const std::stop_token& stop, int part, int parts) {
  const SignalStack stack;
  try {
    make_folders(folder_);
    for (auto i = static_cast<std::size_t>(part); i < shards_.size() && !stop.stop_requested(); i += parts) {
      if (!look(shards_[i])) copy(shards_[i], stop);
    }
  } catch (const std::exception& error) {
    if (!stop.stop_requested())
      log_warning("no more shards are copied to " + folder_.string() +
                  ", the others are read where they are: " + error.what());
  }
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    bool all = true;
    for (Shard& shard : shards_) all = look(shard) && all;
    if (all) return;
    wake.wait_for(lock, stop, kLookAgain, [] { return false; });
  }
}

/// Whether the copy is there, or was dropped.
bool ShardStage::look(Shard& shard) const {
  if (shard.state != State::kAbsent) return true;
  std::error_code error;
  const auto bytes = fs::file_size(shard.to, error);
  if (error || static_cast<std::int64_t>(bytes) != shard.bytes) return false;
  shard.state = State::kReady;
  return true;
}

void ShardStage::copy(const Shard& shard, const std::stop_token& stop) const {
  check_room(shard.bytes);
  const fs::path temporary = folder_ / ("." + shard.to.filename().string() + ".tmp");
  const auto locked = lock_temporary(temporary);
  if (!locked) return;
  try {
    copy_bytes(shard, temporary, stop);
    fs::rename(temporary, shard.to);
  } catch (...) {
    fs::remove(temporary);
    throw;
  }
}

void ShardStage::copy_bytes(const Shard& shard, const fs::path& temporary, const std::stop_token& stop) {
  File to(temporary, File::Mode::kReplace);
  File from;
  ByteBuffer piece;
  for (std::int64_t at = 0; at < shard.bytes; at += std::ssize(piece)) {
    if (stop.stop_requested()) throw Error("the job ends");
    piece.resize(std::min(kCopiedPieceBytes, shard.bytes - at));
    with_retries(
        [&] {
          if (from.path().empty()) from = File(shard.from, File::Mode::kRead);
          from.read_at(at, piece);
        },
        [&] { from = File(); });
    to.write_at(at, piece);
  }
}

void ShardStage::check_room(std::int64_t bytes) const {
  const fs::space_info disk = fs::space(folder_);
  const auto left = static_cast<std::int64_t>(disk.available) - bytes;
  if (by_room_ && left < static_cast<std::int64_t>(disk.capacity / 10)) {
    throw DataError("less than a tenth of the disk would be free");
  }
}

}  // namespace mn::data

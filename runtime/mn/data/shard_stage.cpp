#include <algorithm>
#include <chrono>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/core/uninitialized.hpp>
#include <mn/data/retry.hpp>
#include <mn/data/shard_reader.hpp>
#include <mn/data/shard_stage.hpp>

namespace mn::data {
namespace {

constexpr std::int64_t kCopiedPieceBytes = 4 << 20;
constexpr std::int64_t kPageBytes = 4096;

std::int64_t whole_pages(std::int64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

/// Room for these bytes, so that no write lacks it. File systems that can't promise room are written to all the same.
void reserve(const StageFile& file, std::int64_t offset, std::int64_t bytes) {
  if (::fallocate(file.get(), 0, offset, bytes) == 0 || errno == EOPNOTSUPP) return;
  throw FileError(with_errno("no room in " + file.folder().string(), errno), errno);
}

}  // namespace

ShardStage::ShardStage(const ShardTable& table, std::shared_ptr<const StageFile> file, const StageOptions& options,
                       int parts)
    : table_(table), file_(std::move(file)), options_(options), parts_(parts), wanted_(table.shards().size()) {
  const std::size_t board_bytes = sizeof(SharedBytes) + table.shards().size() * sizeof(SharedState);
  offsets_ = {whole_pages(static_cast<std::int64_t>(board_bytes))};
  for (const ShardInfo& shard : table.shards()) offsets_.push_back(offsets_.back() + whole_pages(shard.bytes));
  map_board();
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

ShardStage::~ShardStage() {
  thread_ = {};
  ::munmap(claimed_bytes_, static_cast<std::size_t>(offsets_[0]));
}

/// A new file is all zeros: no byte claimed, every state kAbsent.
void ShardStage::map_board() {
  struct stat facts = {};
  if (::fstat(file_->get(), &facts) != 0 ||
      (facts.st_size < offsets_[0] && ::posix_fallocate(file_->get(), 0, offsets_[0]) != 0)) {
    throw DataError("no room in " + file_->folder().string());
  }
  void* mapped =
      ::mmap(nullptr, static_cast<std::size_t>(offsets_[0]), PROT_READ | PROT_WRITE, MAP_SHARED, file_->get(), 0);
  if (mapped == MAP_FAILED) throw DataError(with_errno("cannot map a file in " + file_->folder().string(), errno));
  claimed_bytes_ = static_cast<SharedBytes*>(mapped);
  states_ = reinterpret_cast<SharedState*>(claimed_bytes_ + 1);
}

File ShardStage::copy_of(std::size_t shard) const {
  return {file_->get(), static_cast<std::uint64_t>(offsets_[shard]),
          static_cast<std::uint64_t>(table_.shards()[shard].bytes),
          file_->folder() / ("copy of " + table_.shards()[shard].file)};
}

void ShardStage::want(std::size_t shard) {
  if (state(shard) != State::kAbsent) return;
  const std::lock_guard lock(mutex_);
  if (wanted_[shard]) return;
  wanted_[shard] = true;
  queue_.push_back(shard);
  wake_.notify_one();
}

void ShardStage::drop(std::size_t shard, const std::string& why) {
  states_[shard] = State::kDropped;
  if (!warned_.exchange(true)) {
    log_warning("a copy of a shard cannot be used, its samples are read from shared storage: " + why);
  }
}

std::size_t ShardStage::copies() const {
  std::size_t count = 0;
  for (std::size_t shard = 0; shard < table_.shards().size(); ++shard) count += has_copy(shard) ? 1 : 0;
  return count;
}

void ShardStage::work(const std::stop_token& stop) {
  try {
    while (true) {
      std::size_t shard;
      {
        std::unique_lock lock(mutex_);
        if (!wake_.wait(lock, stop, [&] { return !queue_.empty(); })) return;
        shard = queue_.front();
        queue_.pop_front();
      }
      if (claim(shard)) copy(shard, stop);
    }
  } catch (const std::exception& error) {
    if (stop.stop_requested()) return;
    log_warning("no more shards are copied to " + file_->folder().string() +
                ", the others are read where they are: " + error.what());
  }
}

bool ShardStage::claim(std::size_t shard) {
  State expected = State::kAbsent;
  if (!states_[shard].compare_exchange_strong(expected, State::kClaimed)) return false;  // another process's
  const std::int64_t bytes = table_.shards()[shard].bytes;
  if (options_.bytes > 0 && (*claimed_bytes_ += bytes) > options_.bytes) {
    *claimed_bytes_ -= bytes;
    return false;
  }
  return true;
}

void ShardStage::check_room(std::int64_t bytes) const {
  struct statfs disk = {};
  const std::string folder = file_->folder().string();
  if (::fstatfs(file_->get(), &disk) != 0) throw DataError(with_errno("cannot see how full " + folder + " is", errno));
  if (options_.bytes == 0 && (disk.f_type == TMPFS_MAGIC || disk.f_type == RAMFS_MAGIC)) {
    throw DataError(folder + " is memory: say how much of it copies may take (--stage-budget)");
  }
  const auto block = static_cast<std::int64_t>(disk.f_bsize);
  const std::int64_t left = static_cast<std::int64_t>(disk.f_bavail) - bytes / block;
  if (left < static_cast<std::int64_t>(disk.f_blocks / 10)) {
    throw DataError("less than a tenth of the disk would be free");
  }
}

void ShardStage::copy(std::size_t shard, const std::stop_token& stop) {
  check_room(table_.shards()[shard].bytes);
  reserve(*file_, offsets_[shard], table_.shards()[shard].bytes);
  copy_bytes(shard, stop);
  verify(shard);
  states_[shard] = State::kReady;  // (1)
}

void ShardStage::copy_bytes(std::size_t shard, const std::stop_token& stop) {
  const std::int64_t bytes = table_.shards()[shard].bytes;
  File to = copy_of(shard);
  File from;
  ByteBuffer piece;
  for (std::int64_t at = 0; at < bytes; at += std::ssize(piece)) {
    piece.resize(std::min(kCopiedPieceBytes, bytes - at));
    keep_rate(std::ssize(piece), stop);
    with_retries(
        [&] {
          if (from.path().empty()) from = File(table_.path(shard), File::Mode::kRead);
          from.read_at(at, piece);
        },
        [&] { from = File(); });
    to.write_at(at, piece);
  }
}

/// Waits as long as these bytes take at this process's part of the node's rate. Throws if the job ends.
void ShardStage::keep_rate(std::int64_t bytes, const std::stop_token& stop) {
  const double rate = static_cast<double>(options_.bytes_per_second) / parts_;
  const std::chrono::duration<double> pause(rate > 0 ? static_cast<double>(bytes) / rate : 0);
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, stop, pause, [] { return false; });
  if (stop.stop_requested()) throw Error("the job ends");
}

void ShardStage::verify(std::size_t shard) const {
  const ShardReader copy(open_shard(table_, shard, copy_of(shard)), std::make_shared<IoCounters>());
  for (std::size_t f = 0; f < copy.num_fields(); ++f) {
    for (std::int64_t block = 0; !copy.is_small(f) && block < copy.num_blocks(); ++block) {
      if (copy.load_block(f, block) == nullptr) throw DataError(copy.damage(copy.first_sample(block)));
    }
  }
}

}  // namespace mn::data

#include <algorithm>
#include <chrono>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/core/uninitialized.hpp>
#include <mn/data/file_stage.hpp>
#include <mn/data/retry.hpp>

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

FileStage::FileStage(const StoredTable& table, std::shared_ptr<const StageFile> copies, const StageOptions& options,
                     int parts)
    : table_(table), copies_(std::move(copies)), options_(options), parts_(parts), wanted_(table.num_files()) {
  // (board, file 0, file 1, …), each at a multiple of a page. Room is taken only when a file is copied: the rest of
  // the file is a hole.
  const std::size_t board_bytes = sizeof(SharedBytes) + table.num_files() * sizeof(SharedState);
  offsets_ = {whole_pages(static_cast<std::int64_t>(board_bytes))};
  for (std::size_t i = 0; i < table.num_files(); ++i) {
    offsets_.push_back(offsets_.back() + whole_pages(table.file_bytes(i)));
  }
  map_board();
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

FileStage::~FileStage() {
  thread_ = {};
  ::munmap(claimed_bytes_, static_cast<std::size_t>(offsets_[0]));
}

/// A new file is all zeros: no byte claimed, every state kAbsent.
void FileStage::map_board() {
  struct stat facts = {};
  if (::fstat(copies_->get(), &facts) != 0 ||
      (facts.st_size < offsets_[0] && ::posix_fallocate(copies_->get(), 0, offsets_[0]) != 0)) {
    throw DataError("no room in " + copies_->folder().string());
  }
  void* mapped =
      ::mmap(nullptr, static_cast<std::size_t>(offsets_[0]), PROT_READ | PROT_WRITE, MAP_SHARED, copies_->get(), 0);
  if (mapped == MAP_FAILED) throw DataError(with_errno("cannot map a file in " + copies_->folder().string(), errno));
  claimed_bytes_ = static_cast<SharedBytes*>(mapped);
  states_ = reinterpret_cast<SharedState*>(claimed_bytes_ + 1);
}

File FileStage::copy_of(std::size_t file) const {
  return {copies_->get(), static_cast<std::uint64_t>(offsets_[file]),
          static_cast<std::uint64_t>(table_.file_bytes(file)),
          copies_->folder() / ("copy of " + table_.path(file).filename().string())};
}

void FileStage::want(std::size_t file) {
  // Without the lock: most calls are for files whose copy is under way or there.
  if (state(file) != State::kAbsent) return;
  const std::lock_guard lock(mutex_);
  if (wanted_[file]) return;
  wanted_[file] = true;
  queue_.push_back(file);
  wake_.notify_one();
}

void FileStage::drop(std::size_t file, const std::string& why) {
  states_[file] = State::kDropped;
  if (!warned_.exchange(true)) {
    log_warning("a copy of a file cannot be used, its samples are read from shared storage: " + why);
  }
}

std::size_t FileStage::copies() const {
  std::size_t count = 0;
  for (std::size_t file = 0; file < table_.num_files(); ++file) count += has_copy(file) ? 1 : 0;
  return count;
}

void FileStage::work(const std::stop_token& stop) {
  try {
    while (true) {
      std::size_t file;
      {
        std::unique_lock lock(mutex_);
        if (!wake_.wait(lock, stop, [&] { return !queue_.empty(); })) return;
        file = queue_.front();
        queue_.pop_front();
      }
      if (claim(file)) copy(file, stop);
    }
  } catch (const std::exception& error) {
    if (stop.stop_requested()) return;
    log_warning("no more files are copied to " + copies_->folder().string() +
                ", the others are read where they are: " + error.what());
  }
}

bool FileStage::claim(std::size_t file) {
  State expected = State::kAbsent;
  // One process of the node copies a file: whose exchange succeeds.
  if (!states_[file].compare_exchange_strong(expected, State::kClaimed)) return false;  // another process's
  const std::int64_t bytes = table_.file_bytes(file);
  if (options_.bytes > 0 && (*claimed_bytes_ += bytes) > options_.bytes) {
    *claimed_bytes_ -= bytes;
    return false;
  }
  return true;
}

void FileStage::check_room(std::int64_t bytes) const {
  struct statfs disk = {};
  const std::string folder = copies_->folder().string();
  if (::fstatfs(copies_->get(), &disk) != 0)
    throw DataError(with_errno("cannot see how full " + folder + " is", errno));
  if (options_.bytes == 0 && (disk.f_type == TMPFS_MAGIC || disk.f_type == RAMFS_MAGIC)) {
    throw DataError(folder + " is memory: say how much of it copies may take (--stage-budget)");
  }
  const auto block = static_cast<std::int64_t>(disk.f_bsize);
  const std::int64_t left = static_cast<std::int64_t>(disk.f_bavail) - bytes / block;
  if (left < static_cast<std::int64_t>(disk.f_blocks / 10)) {
    throw DataError("less than a tenth of the disk would be free");
  }
}

void FileStage::copy(std::size_t file, const std::stop_token& stop) {
  check_room(table_.file_bytes(file));
  reserve(*copies_, offsets_[file], table_.file_bytes(file));
  // Before and after the copy: a file that is written to meanwhile has no copy that is of one moment.
  table_.check_unchanged(file);
  const std::vector<std::uint32_t> pieces = copy_pieces(file, stop);
  verify(file, pieces);
  table_.check_unchanged(file);   // nobody wrote to it meanwhile
  states_[file] = State::kReady;  // (1)
}

std::vector<std::uint32_t> FileStage::copy_pieces(std::size_t file, const std::stop_token& stop) {
  const std::int64_t bytes = table_.file_bytes(file);
  std::vector<std::uint32_t> crcs;
  File to = copy_of(file);
  File from;
  ByteBuffer piece;
  for (std::int64_t at = 0; at < bytes; at += std::ssize(piece)) {
    piece.resize(std::min(kCopiedPieceBytes, bytes - at));
    keep_rate(std::ssize(piece), stop);
    with_retries(
        [&] {
          if (from.path().empty()) from = File(table_.path(file), File::Mode::kRead);
          from.read_at(at, piece);
        },
        // A handle that fails (ESTALE) is never good again: the next try opens the file again.
        [&] { from = File(); });
    crcs.push_back(crc32c(std::span(piece)));
    to.write_at(at, piece);
  }
  return crcs;
}

/// Waits as long as these bytes take at this process's part of the node's rate. Throws if the job ends.
void FileStage::keep_rate(std::int64_t bytes, const std::stop_token& stop) {
  const double rate = static_cast<double>(options_.bytes_per_second) / parts_;
  const std::chrono::duration<double> pause(rate > 0 ? static_cast<double>(bytes) / rate : 0);
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, stop, pause, [] { return false; });
  if (stop.stop_requested()) throw Error("the job ends");
}

void FileStage::verify(std::size_t file, const std::vector<std::uint32_t>& pieces) const {
  const File copy = copy_of(file);
  ByteBuffer piece;
  std::int64_t at = 0;
  for (const std::uint32_t expected : pieces) {
    piece.resize(std::min(kCopiedPieceBytes, table_.file_bytes(file) - at));
    copy.read_at(at, piece);
    if (crc32c(std::span(piece)) != expected) {
      throw DataError(copy.path().string() + " reads back with other bytes than were written: is the disk damaged?");
    }
    at += std::ssize(piece);
  }
}

}  // namespace mn::data

#include <mn/data/file_stage.hpp>

#include <algorithm>
#include <cassert>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/core/uninitialized.hpp>
#include <mn/data/retry.hpp>

namespace mn::data {
namespace {

constexpr std::int64_t kPageBytes = 4096;
// Pauses between two questions whether another node's copy of a file is finished.
constexpr auto kFirstPause = std::chrono::milliseconds(200);
constexpr auto kLongestPause = std::chrono::milliseconds(5000);

std::int64_t whole_pages(std::int64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

/// Allocates disk space, so that later writes can't fail for lack of it, if the file system has fallocate().
void reserve(const StageFile& file, std::int64_t offset, std::int64_t bytes) {
  // On tmpfs a signal can interrupt fallocate().
  if (TEMP_FAILURE_RETRY(::fallocate(file.get(), 0, offset, bytes)) == 0 || errno == EOPNOTSUPP) return;
  throw FileError(with_errno("no room in " + file.folder().string(), errno), errno);
}

/// Calls use(offset, piece) for each piece of the file, in order, until use() returns false.
template <class Use>
void for_each_piece(const File& file, const Use& use) {
  const auto bytes = static_cast<std::int64_t>(file.size());
  ByteBuffer piece;
  for (std::int64_t at = 0; at < bytes; at += std::ssize(piece)) {
    piece.resize(std::min(kStagePieceBytes, bytes - at));
    file.read_at(at, piece);
    if (!use(at, std::span<const std::byte>(piece))) return;
  }
}

}  // namespace

FileStage::FileStage(const StoredTable& table, std::shared_ptr<const StageNode> node, const StageOptions& options)
    : table_(table), node_(std::move(node)), options_(options), peers_(node_->nodes), wanted_(table.num_files()) {
  first_pieces_ = {0};
  for (std::size_t i = 0; i < table.num_files(); ++i) {
    first_pieces_.push_back(first_pieces_.back() + (table.file_bytes(i) + kStagePieceBytes - 1) / kStagePieceBytes);
  }
  // The file that the node's processes share begins with the states and checksums of the copies. The copies of files 0,
  // 1, … follow, each at a multiple of the page size. The disk space for a copy is allocated only when the copy is
  // made.
  const std::size_t board_bytes = sizeof(SharedBytes) + state_bytes() + first_pieces_.back() * sizeof(Checksum);
  offsets_ = {whole_pages(static_cast<std::int64_t>(board_bytes))};
  for (std::size_t i = 0; i < table.num_files(); ++i) {
    offsets_.push_back(offsets_.back() + whole_pages(table.file_bytes(i)));
  }
  map_board();
  if (node_->listener) {
    server_.emplace(node_->listener, node_->nodes.key,
                    [this](std::uint64_t file, const StageServer::Send& send) { return read_copy(file, send); });
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

FileStage::~FileStage() {
  thread_ = {};
  server_.reset();
  ::munmap(claimed_bytes_, static_cast<std::size_t>(offsets_[0]));
}

/// Maps the beginning of the shared file, which holds states and checksums, into memory. In a new file all bytes are 0:
/// no byte is claimed, and every state is kAbsent.
void FileStage::map_board() {
  reserve(node_->file, 0, offsets_[0]);
  struct stat facts = {};
  if (::fstat(node_->file.get(), &facts) != 0 ||
      (facts.st_size < offsets_[0] && ::ftruncate(node_->file.get(), offsets_[0]) != 0)) {
    throw DataError(with_errno("no room in " + node_->file.folder().string(), errno));
  }
  void* mapped =
      ::mmap(nullptr, static_cast<std::size_t>(offsets_[0]), PROT_READ | PROT_WRITE, MAP_SHARED, node_->file.get(), 0);
  if (mapped == MAP_FAILED) throw DataError(with_errno("cannot map a file in " + node_->file.folder().string(), errno));
  claimed_bytes_ = static_cast<SharedBytes*>(mapped);
  states_ = reinterpret_cast<SharedState*>(claimed_bytes_ + 1);
  checksums_ = reinterpret_cast<Checksum*>(reinterpret_cast<std::byte*>(states_) + state_bytes());
}

File FileStage::copy_of(std::size_t file) const {
  return {node_->file.get(), static_cast<std::uint64_t>(offsets_[file]),
          static_cast<std::uint64_t>(table_.file_bytes(file)),
          node_->file.folder() / ("copy of " + table_.path(file).filename().string())};
}

void FileStage::want(std::size_t file) {
  // Most calls end here, without a lock.
  if (state(file) != State::kAbsent) return;
  const std::lock_guard lock(mutex_);
  if (wanted_[file]) return;
  wanted_[file] = true;
  queue_.push_back({file, {}});
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
    while (const auto work = next(stop)) {
      if (work->pause.count() == 0) {
        if (!claim(work->file)) continue;
        check_room(table_.file_bytes(work->file));
        reserve(node_->file, offsets_[work->file], table_.file_bytes(work->file));
      }
      if (copy(work->file, stop)) continue;
      const auto pause = std::clamp(2 * work->pause, kFirstPause, kLongestPause);
      const std::lock_guard lock(mutex_);
      later_.insert({Clock::now() + pause, {work->file, pause}});
    }
  } catch (const std::exception& error) {
    if (stop.stop_requested()) return;
    log_warning("no more files are copied to " + node_->file.folder().string() +
                ", further files are read from shared storage: " + error.what());
  }
}

std::optional<FileStage::Work> FileStage::next(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (!later_.empty() && later_.begin()->first <= Clock::now()) return later_.extract(later_.begin()).mapped();
    if (!queue_.empty()) {
      const Work first = queue_.front();
      queue_.pop_front();
      return first;
    }
    const Deadline until = later_.empty() ? Clock::now() + std::chrono::hours(1) : later_.begin()->first;
    (void)wake_.wait_until(lock, stop, until, [&] { return !queue_.empty(); });
  }
  return std::nullopt;
}

bool FileStage::claim(std::size_t file) {
  State expected = State::kAbsent;
  // If several processes of the node try this exchange, only one succeeds. It copies the file.
  if (!states_[file].compare_exchange_strong(expected, State::kClaimed)) return false;
  const std::int64_t bytes = table_.file_bytes(file);
  if (options_.bytes > 0 && (*claimed_bytes_ += bytes) > options_.bytes) {
    *claimed_bytes_ -= bytes;
    return false;
  }
  return true;
}

void FileStage::check_room(std::int64_t bytes) const {
  struct statfs disk = {};
  const std::string folder = node_->file.folder().string();
  if (::fstatfs(node_->file.get(), &disk) != 0)
    throw DataError(with_errno("cannot see how full " + folder + " is", errno));
  if (options_.bytes == 0 && (disk.f_type == TMPFS_MAGIC || disk.f_type == RAMFS_MAGIC)) {
    throw DataError(folder + " is memory: give the copies a limit (--stage-budget)");
  }
  const auto block = static_cast<std::int64_t>(disk.f_bsize);
  const std::int64_t left = static_cast<std::int64_t>(disk.f_bavail) - bytes / block;
  if (left < static_cast<std::int64_t>(disk.f_blocks / 10)) {
    throw DataError("less than a tenth of the disk would be free");
  }
}

bool FileStage::copy(std::size_t file, const std::stop_token& stop) {
  const StageSource source = peers_.ask(file);
  if (source.kind == StageSource::Kind::kWait) return false;
  try {
    // Also checked after the copy, because a file written meanwhile would give a mixture of old and new bytes.
    table_.check_unchanged(file);
    const bool from_node = source.kind == StageSource::Kind::kNode;
    const StageAnswer answer = from_node ? copy_from_node(file, source.node, stop) : StageAnswer::kNo;
    if (answer == StageAnswer::kBusy) return false;
    if (from_node && answer == StageAnswer::kNo) peers_.remove(file, source.node);
    if (answer == StageAnswer::kNo) copy_from_storage(file, stop);
    verify(file);
    table_.check_unchanged(file);
  } catch (...) {
    if (!stop.stop_requested()) peers_.give_up(file);
    throw;
  }
  assert(state(file) == State::kClaimed);  // this process has claimed the file
  states_[file] = State::kReady;           // only now is the copy complete and checked
  peers_.add(file);
  return true;
}

StageAnswer FileStage::copy_from_node(std::size_t file, std::uint32_t node, const std::stop_token& stop) {
  File to = copy_of(file);
  std::int64_t at = 0;
  return peers_.get(file, node, table_.file_bytes(file), [&](Checksum crc, std::span<const std::byte> piece) {
    keep_rate(std::ssize(piece), stop);
    to.write_at(at, piece);
    checksum(file, at) = crc;
    at += std::ssize(piece);
    from_nodes_ += std::ssize(piece);
  });
}

void FileStage::copy_from_storage(std::size_t file, const std::stop_token& stop) {
  const std::int64_t bytes = table_.file_bytes(file);
  File to = copy_of(file);
  File from;
  ByteBuffer piece;
  for (std::int64_t at = 0; at < bytes; at += std::ssize(piece)) {
    piece.resize(std::min(kStagePieceBytes, bytes - at));
    keep_rate(std::ssize(piece), stop);
    with_retries(
        [&] {
          if (from.path().empty()) from = File(table_.path(file), File::Mode::kRead);
          from.read_at(at, piece);
        },
        // A stale file handle (ESTALE) stays stale, so the next attempt must open the file again.
        [&] { from = File(); });
    checksum(file, at) = crc32c(std::span(piece));
    to.write_at(at, piece);
    from_storage_ += std::ssize(piece);
  }
}

/// Waits so long that this process does not exceed its share of StageOptions::bytes_per_second. Throws Error if the
/// stage is being destroyed.
void FileStage::keep_rate(std::int64_t bytes, const std::stop_token& stop) {
  const double rate = static_cast<double>(options_.bytes_per_second) / node_->parts;
  const std::chrono::duration<double> pause(rate > 0 ? static_cast<double>(bytes) / rate : 0);
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, stop, pause, [] { return false; });
  if (stop.stop_requested()) throw Error("the job ends");
}

void FileStage::verify(std::size_t file) const {
  const auto compare = [&](std::int64_t at, std::span<const std::byte> piece) {
    if (crc32c(piece) == checksum(file, at)) return true;
    throw DataError(copy_of(file).path().string() +
                    " reads back with other bytes than were written: is the disk damaged?");
  };
  for_each_piece(copy_of(file), compare);
}

bool FileStage::read_copy(std::uint64_t file, const StageServer::Send& send) const {
  if (file >= table_.num_files() || !has_copy(file)) return false;
  for_each_piece(copy_of(file),
                 [&](std::int64_t at, std::span<const std::byte> piece) { return send(checksum(file, at), piece); });
  return true;
}

}  // namespace mn::data

#include <mn/data/open_files.hpp>

#include <cerrno>

#include <sys/resource.h>

#include <mn/core/host_memory.hpp>
#include <mn/core/log.hpp>

namespace mn::data {
namespace {

constexpr std::int64_t kOwn = 256;  // reserve for the program's own files: libraries, sockets, logs

struct Member {
  LruCache<StoredFile>* cache;
  std::int64_t wanted;
};

/// The process's limit of open files, which all caches share.
struct Budget {
  std::mutex mutex;
  std::vector<Member> members;
  std::int64_t opening = 0;
  std::int64_t most = 0;  // limit of the files in all caches

  /// Raises the process's limit of open files to what all caches want, as far as the system permits.
  void resize() {
    std::int64_t wanted = 0;
    for (const Member& member : members) wanted += member.wanted;
    rlimit limit = {};
    most = wanted;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const auto needed = static_cast<rlim_t>(wanted + kOwn);
    if (limit.rlim_cur < needed) {
      limit.rlim_cur = std::min(needed, limit.rlim_max);
      setrlimit(RLIMIT_NOFILE, &limit);
    }
    const auto allowed = static_cast<std::int64_t>(std::min(limit.rlim_cur, needed));
    most = std::max<std::int64_t>(allowed - kOwn, 1);
  }

  [[nodiscard]] std::int64_t open_files() const {
    std::int64_t files = 0;
    for (const Member& member : members) files += member.cache->size();
    return files;
  }

  void close_down_to(std::int64_t files) {
    for (std::int64_t left = open_files(); left > files; --left) {
      const auto oldest = std::ranges::min_element(members, {}, [](const Member& m) { return m.cache->oldest_use(); });
      oldest->cache->drop_oldest();
    }
  }
};

Budget& budget() {
  static Budget of_process;
  return of_process;
}

/// Counts a file as open while it is being opened.
struct Opening {
  Opening() {
    const std::lock_guard lock(budget().mutex);
    ++budget().opening;
    budget().close_down_to(std::max<std::int64_t>(budget().most - budget().opening, 0));
  }
  ~Opening() {
    const std::lock_guard lock(budget().mutex);
    --budget().opening;
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
};

/// Whether the process or the system has too many open files, so that nothing is wrong with this file.
bool is_exhausted(const FileError& error) { return error.error_number() == EMFILE || error.error_number() == ENFILE; }

/// Closes half of the files in the caches. Returns false if there was no file to close.
bool close_half() {
  const std::lock_guard lock(budget().mutex);
  const std::int64_t open = budget().open_files();
  budget().close_down_to(open / 2);
  return open > 0;
}

FileError advised(const FileError& error) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return {std::string(error.what()) + ": the program itself holds all " + std::to_string(limit.rlim_cur) +
              " files that this process may open; raise `ulimit -n`",
          error.error_number()};
}

}  // namespace

std::int64_t default_cache_bytes() { return std::min(kMaxCacheBytes, memory_of_rank() / 4); }

std::int64_t block_room(const StorageLayout& layout, const StoredDatasetOptions& options, int ranks) {
  constexpr std::int64_t kForEach = std::int64_t{64} << 20;
  const std::int64_t shared = ranks == 1 ? options.cache_bytes : kForEach + options.cache_bytes / ranks;
  return std::max(std::min(options.cache_bytes, shared), 2 * layout.live_bytes);
}

FileBudget::FileBudget(LruCache<StoredFile>& cache, std::int64_t wanted) : cache_(cache) {
  const std::lock_guard lock(budget().mutex);
  budget().members.push_back({&cache, wanted});
  budget().resize();
}

FileBudget::~FileBudget() {
  const std::lock_guard lock(budget().mutex);
  std::erase_if(budget().members, [&](const Member& member) { return member.cache == &cache_; });
  budget().resize();
}

std::shared_ptr<const StoredFile> FileBudget::with_room(const Open& open) {
  const Opening counted;
  while (true) {
    try {
      return open();
    } catch (const FileError& error) {
      if (!is_exhausted(error)) throw;
      if (!close_half()) throw advised(error);
    }
  }
}

OpenFiles::OpenFiles(std::shared_ptr<const StoredTable> table, const StoredDatasetOptions& options,
                     std::shared_ptr<IoCounters> counters)
    : table_(std::move(table)),
      options_(options),
      counters_(std::move(counters)),
      layout_(table_->layout()),
      block_room_(block_room(layout_, options, 1)),
      open_(options.index_bytes),
      blocks_(block_room_),
      budget_(open_, std::min(options.open_files, static_cast<std::int64_t>(table_->num_files()))) {}

std::shared_ptr<const StoredFile> OpenFiles::get(std::size_t key, std::size_t file,
                                                 const std::function<File()>& open_bytes) {
  return open_.get(key, [&]() -> LruCache<StoredFile>::NewValue {
    auto opened = budget_.with_room([&] { return table_->open(file, open_bytes(), counters_); });
    // A file costs at least index_bytes / open_files, so that the cache open_ also limits the number of files.
    const std::int64_t cost = std::max(opened->index_bytes(), options_.index_bytes / options_.open_files);
    return {std::move(opened), cost};
  });
}

OpenFiles::Opened OpenFiles::open(std::size_t file) {
  if (stage_ != nullptr) {
    if (stage_->has_copy(file)) {
      try {
        return {get(key_of_copy(file), file, [&] { return stage_->copy_of(file); }), true};
      } catch (const DataError& error) {
        const auto* of_file = dynamic_cast<const FileError*>(&error);
        if (of_file != nullptr && is_exhausted(*of_file)) throw;  // the copy is not at fault
        stage_->drop(file, error.what());
      }
    }
    stage_->want(file);
  }
  return {get(file, file, [&] {
    table().check_unchanged(file);
    return File(table().path(file), File::Mode::kRead);
  })};
}

void OpenFiles::close(std::size_t file) {
  open_.erase(file);
  open_.erase(key_of_copy(file));
}

void OpenFiles::drop_copy(std::size_t file, const std::string& why) {
  stage_->drop(file, why);
  open_.erase(key_of_copy(file));
}

/// 6 bits for the field, 24 bits for the file, and 34 bits for the block.
std::uint64_t OpenFiles::key_of(std::size_t file, std::size_t field, std::int64_t block) {
  return static_cast<std::uint64_t>(file) << 40 | static_cast<std::uint64_t>(field) << 34 |
         static_cast<std::uint64_t>(block);
}

std::shared_ptr<const ByteBuffer> OpenFiles::block(const StoredFile& from, std::size_t file, std::size_t field,
                                                   std::int64_t number) {
  return blocks_.get(key_of(file, field, number), [&]() -> LruCache<ByteBuffer>::NewValue {
    warn_of_little_room();
    auto made = from.load_block(field, number);
    const std::int64_t bytes = std::ssize(*made);
    const bool stays = layout_.bytes <= block_room_;
    return {std::move(made), bytes, stays ? LruCache<ByteBuffer>::kUnlimited : from.samples_in(field, number)};
  });
}

void OpenFiles::warn_of_little_room() {
  constexpr std::int64_t kFewBlocks = 1000;
  if (warned_) return;
  const auto [made, dropped] = blocks_.made_and_dropped();
  if (made < kFewBlocks || 2 * dropped < made || warned_.exchange(true)) return;
  log_warning("blocks of " + table().folder() + " are read more than once: the blocks in use do not fit into " +
              std::to_string(block_room_ >> 20) +
              " MiB; give the process, or its loader (LoaderOptions::prefetch_bytes), more memory");
}

void OpenFiles::share(int ranks) {
  if (layout_.bytes <= kFullShuffleBytes) return;  // all of such a dataset stays in memory
  hold_at_most(block_room(layout_, options_, ranks));
}

void OpenFiles::hold_at_most(std::int64_t bytes) {
  block_room_ = std::min<std::int64_t>(block_room_, std::max(bytes, 2 * layout_.live_bytes));
  blocks_.set_capacity(block_room_);
}

void OpenFiles::stage(const StageOptions& options, std::shared_ptr<const StageNode> node) {
  stage_ = std::make_unique<FileStage>(table(), std::move(node), options);
}

}  // namespace mn::data

/// What a rank keeps between reads: open files, blocks of samples, and copies of files on the node.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/data/file_stage.hpp>
#include <mn/data/lru_cache.hpp>
#include <mn/data/order.hpp>
#include <mn/data/read_pool.hpp>
#include <mn/data/stored_table.hpp>

namespace mn::data {

/// kMaxLiveBytes for the blocks in use, and half as much again, because two lanes may share blocks (order.cpp).
inline constexpr std::int64_t kMaxCacheBytes = kMaxLiveBytes / 2 * 3;
/// kMaxCacheBytes, or a quarter of this process's memory if that is less.
[[nodiscard]] std::int64_t default_cache_bytes();

/// Limits of one process. Unless memory is short, the defaults suffice for the orders of default_order().
struct StoredDatasetOptions {
  std::int64_t open_files = kMaxOpenFiles;
  std::int64_t index_bytes = kMaxIndexBytes + (std::int64_t{8} << 20);  ///< memory for the indexes of open files
  std::int64_t cache_bytes = default_cache_bytes();                     ///< memory for blocks, in bytes
  std::filesystem::path installed = {};                                 ///< argument `installed` of open_dataset()
};

/// Memory for blocks on one rank if `ranks` ranks read equally much. It has room for the blocks that default_order()
/// uses at a time, and for at least two blocks of each field.
[[nodiscard]] std::int64_t block_room(const StorageLayout& layout, const StoredDatasetOptions& options, int ranks);

/// Adds a dataset's cache of open files to the caches of the process, which together keep to the system's limit.
///
/// (1) The files in all caches and the files being opened are at most the system's limit less a reserve for the
///     program's own files. The file that was unused for longest, in any cache, is closed first.
/// (2) If the system still rejects an open(), the caches close half of their files, and the file is opened again.
/// (3) Lock order: the lock of all caches (Budget), then a cache's own lock.
class FileBudget {
 public:
  /// Raises the process's limit of open files by `wanted` if the system permits. `cache` must outlive this object.
  FileBudget(LruCache<StoredFile>& cache, std::int64_t wanted);
  ~FileBudget();
  FileBudget(const FileBudget&) = delete;
  FileBudget& operator=(const FileBudget&) = delete;

  using Open = std::function<std::shared_ptr<const StoredFile>()>;
  /// Calls open() when there is room for a file, and returns its result. Throws the errors of open(). If the system has
  /// no room and the caches have no file to close, the FileError also gives advice.
  [[nodiscard]] std::shared_ptr<const StoredFile> with_room(const Open& open);

 private:
  LruCache<StoredFile>& cache_;
};

/// 128 reads of 64 KiB at a time give 4 GB/s from storage with a latency of 2 ms, and also keep fast storage busy.
inline constexpr int kReadsAtATime = 128;

/// The open files of a dataset, and blocks of its samples. Thread-safe after the calls of stage() and share().
class OpenFiles {
 public:
  OpenFiles(std::shared_ptr<const StoredTable> table, const StoredDatasetOptions& options,
            std::shared_ptr<IoCounters> counters);

  [[nodiscard]] const StoredTable& table() const noexcept { return *table_; }
  [[nodiscard]] ReadPool& pool() noexcept { return pool_; }
  [[nodiscard]] std::int64_t sample_bytes() const {
    return layout_.bytes / std::max<std::int64_t>(table().num_samples(), 1);
  }

  struct Opened {
    std::shared_ptr<const StoredFile> file;
    bool is_copy = false;  ///< `file` is the node's copy
  };
  /// Returns the file. If it is not open, opens the copy on the node or, if there is no good copy, the file on shared
  /// storage. Throws the errors of opening.
  [[nodiscard]] Opened open(std::size_t file);
  [[nodiscard]] bool is_open(std::size_t file) {
    return open_.find(file) != nullptr || open_.find(key_of_copy(file)) != nullptr;
  }
  void close(std::size_t file);
  /// Makes the node stop using the copy of the file, and logs the reason `why`.
  void drop_copy(std::size_t file, const std::string& why);

  /// Returns a block to a caller that needs one of its samples. If there is room for all blocks of the dataset, the
  /// block stays in memory. Otherwise it is dropped after as many calls as it has samples.
  [[nodiscard]] std::shared_ptr<const ByteBuffer> block(const StoredFile& from, std::size_t file, std::size_t field,
                                                        std::int64_t number);
  /// Returns null if the block is not in memory.
  [[nodiscard]] std::shared_ptr<const ByteBuffer> find_block(std::size_t file, std::size_t field, std::int64_t number) {
    return blocks_.find(key_of(file, field, number));
  }

  /// Whether to ask the system to read neighboring blocks ahead into the page cache. False if memory is short, because
  /// the system would then drop these blocks before their use.
  [[nodiscard]] bool reads_ahead() const noexcept { return options_.cache_bytes >= kMaxCacheBytes; }

  /// These functions implement Dataset::share(), hold_at_most() and stage().
  void share(int ranks);
  void hold_at_most(std::int64_t bytes);
  void stage(const StageOptions& options, std::shared_ptr<const StageNode> node);

  /// The part of options.index_bytes that open files use now. Each file counts at least index_bytes / open_files.
  [[nodiscard]] std::int64_t index_bytes() const { return open_.used(); }
  [[nodiscard]] std::int64_t block_bytes() const { return blocks_.used(); }

 private:
  [[nodiscard]] static std::uint64_t key_of(std::size_t file, std::size_t field, std::int64_t block);
  [[nodiscard]] std::size_t key_of_copy(std::size_t file) const { return table().num_files() + file; }
  void warn_of_little_room();
  [[nodiscard]] std::shared_ptr<const StoredFile> get(std::size_t key, std::size_t file,
                                                      const std::function<File()>& open_bytes);

  std::shared_ptr<const StoredTable> table_;
  StoredDatasetOptions options_;
  std::shared_ptr<IoCounters> counters_;
  StorageLayout layout_;
  std::atomic<std::int64_t> block_room_;
  LruCache<StoredFile> open_;
  LruCache<ByteBuffer> blocks_;
  std::atomic<bool> warned_ = false;
  FileBudget budget_;
  ReadPool pool_{kReadsAtATime};
  std::unique_ptr<FileStage> stage_;  // null: there are no copies
};

/// Implements Dataset::read(). With `only`, reads only this field, and leaves all other columns undefined. Thread-safe.
void read_samples(OpenFiles& files, std::span<const std::int64_t> indices, RawSamples& out,
                  std::vector<SampleError>* damaged, std::optional<std::size_t> only = {});

}  // namespace mn::data

/// What a rank keeps between reads: open files with their indexes, blocks of samples in memory, and copies of files on
/// the node.
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

/// The largest cache for blocks: it has room for kMaxLiveBytes (the limit of the blocks in use), and for half as much
/// again, because two lanes may share blocks (order.cpp).
inline constexpr std::int64_t kMaxCacheBytes = kMaxLiveBytes / 2 * 3;
/// The default memory for blocks: kMaxCacheBytes, or a quarter of this process's memory if that is less.
[[nodiscard]] std::int64_t default_cache_bytes();

/// Limits of one process on open files and memory. The defaults are enough for all files and blocks from which
/// default_order() reads at a time, unless memory is short.
struct StoredDatasetOptions {
  std::int64_t open_files = kMaxOpenFiles;
  std::int64_t index_bytes = kMaxIndexBytes + (std::int64_t{8} << 20);  ///< memory for the indexes of open files
  std::int64_t cache_bytes = default_cache_bytes();                     ///< memory for blocks, in bytes
  std::filesystem::path installed = {};                                 ///< argument `installed` of open_dataset()
};

/// The memory for blocks on one rank, if `ranks` ranks read equally much. The memory has room for the blocks that
/// default_order() has in use, and for at least two blocks of each field.
[[nodiscard]] std::int64_t block_room(const StorageLayout& layout, const StoredDatasetOptions& options, int ranks);

/// Enters a dataset's cache of open files in the process's budget. All caches of the process share one budget, because
/// the system limits the open files of a process.
///
/// (1) The files in all caches and the files being opened are at most the system's limit less a reserve for the
///     program's own files. The file that was unused for longest, in any cache, is closed first.
/// (2) If the system still refuses to open a file, the caches close half of their files, and the file is opened again.
/// (3) Lock order: the budget's lock, then a cache's lock.
///
/// Cost: opening a file takes one lock.
class FileBudget {
 public:
  /// Raises the process's limit of open files by `wanted`, as far as the system permits. `cache` must outlive this
  /// object.
  FileBudget(LruCache<StoredFile>& cache, std::int64_t wanted);
  ~FileBudget();
  FileBudget(const FileBudget&) = delete;
  FileBudget& operator=(const FileBudget&) = delete;

  using Open = std::function<std::shared_ptr<const StoredFile>()>;
  /// Returns the result of open() as soon as there is room for a file. Throws the errors of open(); if the system
  /// refuses to open a file and the caches have no file to close, the FileError tells the remedy.
  [[nodiscard]] std::shared_ptr<const StoredFile> with_room(const Open& open);

 private:
  LruCache<StoredFile>& cache_;
};

/// Number of reads at a time. 128 reads of 64 KiB give 4 GB/s from storage with a latency of 2 ms, and also keep fast
/// storage busy.
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
  /// Returns the file if it is open. Otherwise opens it: the copy on the node if the copy is good, else the file on
  /// shared storage. Throws the errors of opening.
  [[nodiscard]] Opened open(std::size_t file);
  [[nodiscard]] bool is_open(std::size_t file) {
    return open_.find(file) != nullptr || open_.find(key_of_copy(file)) != nullptr;
  }
  /// Closes the file, so that the next open() opens it again.
  void close(std::size_t file);
  /// Stops the use of the file's copy on the node, and logs the reason `why`.
  void drop_copy(std::size_t file, const std::string& why);

  /// Returns a block of a field to a caller that needs one sample of the block. If there is room for all blocks of the
  /// dataset, blocks stay in memory. Otherwise a block is dropped after as many calls as the block has samples.
  [[nodiscard]] std::shared_ptr<const ByteBuffer> block(const StoredFile& from, std::size_t file, std::size_t field,
                                                        std::int64_t number);
  /// Returns the block if it is in memory; otherwise returns null.
  [[nodiscard]] std::shared_ptr<const ByteBuffer> find_block(std::size_t file, std::size_t field, std::int64_t number) {
    return blocks_.find(key_of(file, field, number));
  }

  /// Whether to ask the system to read neighboring blocks ahead into the page cache. False if memory is short, because
  /// the system would then drop these blocks before their use.
  [[nodiscard]] bool reads_ahead() const noexcept { return options_.cache_bytes >= kMaxCacheBytes; }

  /// This function and the next two implement Dataset::share(), hold_at_most() and stage().
  void share(int ranks);
  void hold_at_most(std::int64_t bytes);
  void stage(const StageOptions& options, std::shared_ptr<const StageNode> node);

  /// The bytes of options.index_bytes that open files use now. Each file counts at least index_bytes / open_files.
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

/// Implements Dataset::read() for the samples of `files`. If `only` has a value, reads only the field with this number,
/// and leaves all other columns undefined. Thread-safe.
void read_samples(OpenFiles& files, std::span<const std::int64_t> indices, RawSamples& out,
                  std::vector<SampleError>* damaged, std::optional<std::size_t> only = {});

}  // namespace mn::data

/// What a rank keeps in memory between reads: open files with their indexes, blocks of samples, copies on the node.
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

/// Room for kMaxLiveBytes and for blocks that the ends of lanes cut.
inline constexpr std::int64_t kMaxCacheBytes = kMaxLiveBytes / 2 * 3;
/// kMaxCacheBytes, or a quarter of this process's memory if that is less.
[[nodiscard]] std::int64_t default_cache_bytes();

/// Limits of one process on open files and memory. The defaults have room for everything that default_order() reads
/// from at a time, unless memory is short.
struct StoredDatasetOptions {
  std::int64_t open_files = kMaxOpenFiles;
  std::int64_t index_bytes = kMaxIndexBytes + (std::int64_t{8} << 20);  ///< memory for the indexes of open files
  std::int64_t cache_bytes = default_cache_bytes();                     ///< memory for blocks with unread samples
  std::filesystem::path installed = {};                                 ///< open_dataset's argument
};

/// Memory for blocks on one of `ranks` ranks that read equally much: room for the blocks that default_order() has in
/// use, and for at least two blocks of each field.
[[nodiscard]] std::int64_t block_room(const StorageLayout& layout, const StoredDatasetOptions& options, int ranks);

/// The membership of one cache of open files in the budget of the process: the system's limit is the process's, not a
/// dataset's.
///
/// (1) All caches, and files being opened, hold at most the system's limit less the program's own files. The file that
///     was unused for longest, of any dataset, is closed first.
/// (2) If the system still has no file left, caches close half of their files, and the open is repeated.
/// (3) Lock order: the budget's lock, then a cache's lock.
///
/// Cost: one lock for each file that is opened.
class FileBudget {
 public:
  /// Raises the system's limit by `wanted` files, as far as the system permits. `cache` must outlive the budget.
  FileBudget(LruCache<StoredFile>& cache, std::int64_t wanted);
  ~FileBudget();
  FileBudget(const FileBudget&) = delete;
  FileBudget& operator=(const FileBudget&) = delete;

  /// Returns the result of open() as soon as there is room for a file. Throws the errors of open(); if the system has
  /// no file left and no cache has one to close, the FileError names the remedy.
  template <class Open>
  [[nodiscard]] auto with_room(const Open& open) {
    const Room room;
    while (true) {
      try {
        return open();
      } catch (const FileError& error) {
        if (!is_exhausted(error)) throw;
        if (!close_half()) throw advised(error);
      }
    }
  }

  /// Whether the process or the system had no file left; the file itself is not at fault.
  [[nodiscard]] static bool is_exhausted(const FileError& error) noexcept;

 private:
  /// Holds room for a file during its opening.
  struct Room {
    Room();
    ~Room();
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
  };
  /// Whether any was closed.
  [[nodiscard]] static bool close_half();
  [[nodiscard]] static FileError advised(const FileError& error);

  LruCache<StoredFile>& cache_;
};

/// 128 reads of 64 KiB at a time: 4 GB/s from storage that takes 2 ms for a read; fast storage stays busy, too.
inline constexpr int kReadsAtATime = 128;

/// Thread-safe, once stage() and share() were called.
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
    bool is_copy = false;  ///< on the node
  };
  /// Opens the file, unless it is open: its copy on the node if the copy is good. Throws the errors of opening.
  [[nodiscard]] Opened open(std::size_t file);
  [[nodiscard]] bool is_open(std::size_t file) {
    return open_.find(file) != nullptr || open_.find(key_of_copy(file)) != nullptr;
  }
  /// Closes the file, so that the next open() opens it again.
  void close(std::size_t file);
  /// Stops reading the file's copy.
  void drop_copy(std::size_t file, const std::string& why);

  /// The block of a field, for one of its samples. If all blocks of the dataset have room, all stay in memory;
  /// otherwise a block leaves memory when each of its samples has been asked for.
  [[nodiscard]] std::shared_ptr<const ByteBuffer> block(const StoredFile& from, std::size_t file, std::size_t field,
                                                        std::int64_t number);
  /// The block if it is in memory, else null.
  [[nodiscard]] std::shared_ptr<const ByteBuffer> find_block(std::size_t file, std::size_t field, std::int64_t number) {
    return blocks_.find(key_of(file, field, number));
  }

  /// Whether the system reads neighbors ahead into the page cache: as many as blocks are in use. If memory is short,
  /// they would leave the page cache before their use.
  [[nodiscard]] bool reads_ahead() const noexcept { return options_.cache_bytes >= kMaxCacheBytes; }

  /// Implement Dataset::share(), hold_at_most() and stage().
  void share(int ranks);
  void hold_at_most(std::int64_t bytes);
  void stage(const StageOptions& options, std::shared_ptr<const StageNode> node);

  /// Memory of indexes (or their share of the handles) and blocks at present.
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
  std::unique_ptr<FileStage> stage_;  // null: no copies
};

/// Dataset::read() for the samples of `files`; with `only`, reads a single field and leaves the others undefined.
/// Thread-safe.
void read_samples(OpenFiles& files, std::span<const std::int64_t> indices, RawSamples& out,
                  std::vector<SampleError>* damaged, std::optional<std::size_t> only = {});

}  // namespace mn::data

/// What a rank keeps of the files that it reads: open files with their indexes, blocks of samples, copies on the node.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <mn/data/file_budget.hpp>
#include <mn/data/file_stage.hpp>
#include <mn/data/lru_cache.hpp>
#include <mn/data/order.hpp>
#include <mn/data/read_pool.hpp>
#include <mn/data/stored_table.hpp>

namespace mn::data {

/// Room for kMaxLiveBytes, and for what the ends of lanes cut.
inline constexpr std::int64_t kMaxCacheBytes = kMaxLiveBytes / 2 * 3;
/// That, or a quarter of this process's memory.
[[nodiscard]] std::int64_t default_cache_bytes();

/// What reading may hold open and in memory, for each process. The defaults have room for what default_order() reads
/// from at a time, unless there is little memory.
struct StoredDatasetOptions {
  std::int64_t open_files = kMaxOpenFiles;
  std::int64_t index_bytes = kMaxIndexBytes + (std::int64_t{8} << 20);  ///< memory for the indexes of open files
  std::int64_t cache_bytes = default_cache_bytes();                     ///< memory for blocks that are not used up
  std::filesystem::path installed = {};                                 ///< open_dataset's argument
};

/// Memory for blocks on one of `ranks` ranks that read about equally much: for those that default_order() has in use,
/// at least for two of each field.
[[nodiscard]] std::int64_t block_room(const StorageLayout& layout, const StoredDatasetOptions& options, int ranks);

/// 128 reads of 64 KiB at a time are 4 GB/s from storage that takes 2 ms for each, and keep a fast one busy meanwhile.
inline constexpr int kReadsAtATime = 128;

/// Thread-safe, once stage() and share() were called.
class OpenFiles {
 public:
  OpenFiles(std::shared_ptr<const StoredTable> table, const StoredDatasetOptions& options,
            std::shared_ptr<IoCounters> counters);

  [[nodiscard]] const StoredTable& table() const noexcept { return *table_; }
  [[nodiscard]] ReadPool& pool() noexcept { return pool_; }
  /// Bytes of a sample, about.
  [[nodiscard]] std::int64_t sample_bytes() const {
    return layout_.bytes / std::max<std::int64_t>(table().num_samples(), 1);
  }

  /// A file of the table.
  struct Opened {
    std::shared_ptr<const StoredFile> file;
    bool is_copy = false;  ///< on the node
  };
  /// The file, opened unless it is open: its copy on the node, if there is one that is good. Throws as opening does.
  [[nodiscard]] Opened open(std::size_t file);
  /// Whether open() need not open it.
  [[nodiscard]] bool is_open(std::size_t file) {
    return open_.find(file) != nullptr || open_.find(key_of_copy(file)) != nullptr;
  }
  /// Closes it, so that the next open() opens it again.
  void close(std::size_t file);
  /// Its copy is read no more.
  void drop_copy(std::size_t file, const std::string& why);

  /// The block of a field, for one of its samples. Where all blocks of the dataset have room, all stay; else a block
  /// goes when each of its samples has been asked for.
  [[nodiscard]] std::shared_ptr<const ByteBuffer> block(const StoredFile& from, std::size_t file, std::size_t field,
                                                        std::int64_t number);
  /// The same if the block is in memory, else null.
  [[nodiscard]] std::shared_ptr<const ByteBuffer> find_block(std::size_t file, std::size_t field, std::int64_t number) {
    return blocks_.find(key_of(file, field, number));
  }

  /// Whether the system is to read neighbors ahead. They wait in the page cache, as many as there are blocks in use:
  /// where memory is short they would be gone before they are asked for.
  [[nodiscard]] bool reads_ahead() const noexcept { return options_.cache_bytes >= kMaxCacheBytes; }

  /// As Dataset::share(), hold_at_most() and stage().
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

}  // namespace mn::data

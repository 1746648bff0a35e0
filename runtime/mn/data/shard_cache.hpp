/// What a rank keeps of the shards that it reads: open files with their indexes, and blocks of samples.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>

#include <mn/data/file_budget.hpp>
#include <mn/data/lru_cache.hpp>
#include <mn/data/order.hpp>

namespace mn::data {

/// What reading may hold open and in memory, for each process. The defaults have room for what default_order() reads
/// from at a time.
struct ShardDatasetOptions {
  std::int64_t open_shards = kMaxOpenFiles;
  std::int64_t index_bytes = kMaxIndexBytes + (std::int64_t{8} << 20);   ///< memory for the indexes of open shards
  std::int64_t cache_bytes = kMaxLiveBytes + (std::int64_t{128} << 20);  ///< memory for blocks that are not used up
  std::filesystem::path installed = {};                                  ///< open_dataset's argument
};

/// Thread-safe. A Reader has index_bytes(), samples_in(block), block_bytes(field, block) and load_block(field, block) →
/// shared pointer to its Block, null if that is damaged.
template <class Reader>
class ShardCache final : public FileCache {
 public:
  using Block = typename Reader::Block;

  /// `data_bytes`: of all blocks of the dataset. Where they have room, all stay; else a block goes when each of its
  /// samples has been asked for.
  ShardCache(const ShardDatasetOptions& options, std::int64_t data_bytes)
      : options_(options),
        data_bytes_(data_bytes),
        block_room_(options.cache_bytes),
        readers_(options.index_bytes),
        blocks_(options.cache_bytes) {}

  /// The shard's reader, by `open()` → shared pointer to Reader if it is not open.
  template <class Open>
  [[nodiscard]] std::shared_ptr<const Reader> reader(std::size_t shard, const Open& open) {
    return readers_.get(shard, [&]() -> typename LruCache<Reader>::Made {
      std::shared_ptr<const Reader> opened = open();
      // One limit for both: a file costs its share of the handles, or of the memory.
      const std::int64_t cost = std::max(opened->index_bytes(), options_.index_bytes / options_.open_shards);
      return {std::move(opened), cost};
    });
  }

  /// Whether reader() need not open the shard.
  [[nodiscard]] bool is_open(std::size_t shard) { return readers_.find(shard) != nullptr; }

  /// Closes a shard; the next reader() opens it again.
  void close(std::size_t shard) { readers_.erase(shard); }

  /// The block of a field, for one of its samples.
  [[nodiscard]] std::shared_ptr<const Block> block(const Reader& reader, std::size_t shard, std::size_t field,
                                                   std::int64_t number) {
    return blocks_.get(key_of(shard, field, number), [&]() -> typename LruCache<Block>::Made {
      return {reader.load_block(field, number), reader.block_bytes(field, number),
              data_bytes_ <= block_room_ ? LruCache<Block>::kUnlimited : reader.samples_in(number)};
    });
  }

  /// The same if the block is in memory, else null.
  [[nodiscard]] std::shared_ptr<const Block> find_block(std::size_t shard, std::size_t field, std::int64_t number) {
    return blocks_.find(key_of(shard, field, number));
  }

  /// For one of `ranks` ranks that read about equally much: it uses fewer blocks at a time, but keeps small data whole.
  /// To be called before samples are read.
  void share(int ranks) {
    if (data_bytes_ <= kFullShuffleBytes) return;
    constexpr std::int64_t kForEach = std::int64_t{64} << 20;
    block_room_ = std::min(options_.cache_bytes, kForEach + options_.cache_bytes / ranks);
    blocks_.set_capacity(block_room_);
  }

  /// Memory of indexes (or their share of the handles) and blocks at present.
  [[nodiscard]] std::int64_t index_bytes() const { return readers_.used(); }
  [[nodiscard]] std::int64_t block_bytes() const { return blocks_.used(); }

  [[nodiscard]] std::int64_t open_files() const override { return readers_.size(); }
  [[nodiscard]] Time oldest_use() const override { return readers_.oldest_use(); }
  void close_oldest() override { readers_.drop_oldest(); }

 private:
  /// A spec has at most 64 fields; 2^24 shards of 2^34 blocks.
  static std::uint64_t key_of(std::size_t shard, std::size_t field, std::int64_t block) {
    return static_cast<std::uint64_t>(shard) << 40 | static_cast<std::uint64_t>(field) << 34 |
           static_cast<std::uint64_t>(block);
  }

  ShardDatasetOptions options_;
  std::int64_t data_bytes_;
  std::int64_t block_room_;
  LruCache<Reader> readers_;
  LruCache<Block> blocks_;
};

}  // namespace mn::data

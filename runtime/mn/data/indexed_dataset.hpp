/// A dataset in ordinary HDF5 files, which `mnshard index` has indexed.
#pragma once

#include <memory>

#include <mn/data/dataset.hpp>
#include <mn/data/indexed_reader.hpp>
#include <mn/data/indexed_table.hpp>
#include <mn/data/lru_cache.hpp>
#include <mn/data/shard_cache.hpp>

namespace mn::data {

/// Memory for blocks on one of `ranks` ranks: for those that default_order() has in use, at least for two of each
/// field.
[[nodiscard]] std::int64_t block_room(const IndexedTable& table, const ShardDatasetOptions& options, int ranks);

/// Opens a file when one of its samples is read. Blocks of samples (chunks, decoded, or 64 KiB of contiguous data) stay
/// in memory, up to a limit in bytes, until each of their samples has been read. Errors of a file server that may pass
/// are retried, as in shards.
class IndexedDataset final : public Dataset {
 public:
  explicit IndexedDataset(IndexedTable table, const ShardDatasetOptions& options = {});

  [[nodiscard]] const IndexedTable& indexed_table() const noexcept { return table_; }

 private:
  std::int64_t do_size() const override { return table_.num_samples(); }
  const SampleSpec& do_spec() const override { return table_.spec(); }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override;
  std::string do_format() const override { return kShardsFormat; }
  std::string do_table() const override { return table_.serialize(); }
  std::uint64_t do_fingerprint() const override { return table_.hash(); }
  IoStats do_io() const override { return {counters_->opens, counters_->bytes}; }
  std::string do_where(std::int64_t index) const override;
  StorageLayout do_layout() const override { return table_.layout(); }
  void do_share(int ranks) override;

  [[nodiscard]] std::shared_ptr<const IndexedReader> reader(std::size_t file) const;
  /// One field of one sample.
  void read_value(std::int64_t index, std::size_t field, std::span<std::byte> out) const;
  /// The block with a sample of a file.
  [[nodiscard]] std::shared_ptr<const ByteBuffer> block(const IndexedReader& from, std::size_t file, std::size_t field,
                                                        std::int64_t number) const;

  IndexedTable table_;
  ShardDatasetOptions options_;
  std::int64_t block_room_;
  std::shared_ptr<IoCounters> counters_ = std::make_shared<IoCounters>();
  mutable LruCache<IndexedReader> readers_;
  mutable LruCache<ByteBuffer> blocks_;
};

}  // namespace mn::data

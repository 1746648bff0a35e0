/// A dataset in shards.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <mn/data/dataset.hpp>
#include <mn/data/lru_cache.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/shard_reader.hpp>

namespace mn::data {

/// What reading may hold open and in memory, for each process.
struct ShardDatasetOptions {
  std::int64_t open_shards = 256;
  std::int64_t cache_bytes = std::int64_t{256} << 20;  ///< of verified blocks of fixed samples
  std::filesystem::path installed = {};                ///< open_dataset's argument
};

/// Opens a shard when one of its samples is read, reads the samples asked for (fixed ones by blocks of 64, the unit of
/// their checksums), and keeps the most recently used files and blocks.
class ShardDataset final : public Dataset {
 public:
  /// Reads the manifest of `name_or_path` (see open_dataset) and compares the shards with it, both at first use.
  explicit ShardDataset(std::string name_or_path, const ShardDatasetOptions& options = {});
  explicit ShardDataset(ShardTable table, const ShardDatasetOptions& options = {});

  [[nodiscard]] const ShardTable& shard_table() const;

 private:
  using Block = ByteBuffer;

  std::int64_t do_size() const override { return shard_table().num_samples(); }
  const SampleSpec& do_spec() const override { return shard_table().spec(); }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override;
  std::string do_table() const override { return shard_table().serialize(); }
  std::uint64_t do_fingerprint() const override { return shard_table().hash(); }
  IoStats do_io() const override { return {counters_->opens, counters_->bytes}; }
  std::string do_where(std::int64_t index) const override;
  std::int64_t do_stored_bytes() const override { return shard_table().total_bytes(); }

  void read_encoded(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>* damaged) const;
  void read_fixed(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>* damaged) const;
  [[nodiscard]] std::shared_ptr<const ShardReader> reader(std::size_t shard) const;
  [[nodiscard]] std::shared_ptr<const Block> block(const ShardReader& reader, std::size_t shard,
                                                   std::int64_t block) const;

  std::string name_;
  std::filesystem::path installed_;
  std::shared_ptr<IoCounters> counters_ = std::make_shared<IoCounters>();
  mutable std::mutex table_mutex_;
  mutable std::optional<ShardTable> table_;
  mutable LruCache<ShardReader> readers_;
  mutable LruCache<Block> blocks_;
};

/// The folder of the dataset NAME; the search of open_dataset. Throws DataError that lists where it looked.
[[nodiscard]] std::filesystem::path find_dataset(const std::string& name_or_path,
                                                 const std::filesystem::path& installed = {});

}  // namespace mn::data

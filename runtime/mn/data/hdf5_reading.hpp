/// One read of samples from indexed HDF5 files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <mn/data/dataset.hpp>
#include <mn/data/file_budget.hpp>
#include <mn/data/hdf5_reader.hpp>
#include <mn/data/hdf5_table.hpp>
#include <mn/data/lru_cache.hpp>
#include <mn/data/open_shards.hpp>

namespace mn::data {

/// Memory for blocks on one of `ranks` ranks: for those that default_order() has in use, at least for two of each
/// field.
[[nodiscard]] std::int64_t block_room(const Hdf5Table& table, const ShardDatasetOptions& options, int ranks);

/// An indexed table, and what this process holds of its files. Members are thread-safe.
struct OpenIndex final : FileCache {
  OpenIndex(Hdf5Table files, const ShardDatasetOptions& options);

  [[nodiscard]] std::shared_ptr<const Hdf5Reader> reader(std::size_t file);
  /// A block of a field, for one of its samples.
  [[nodiscard]] std::shared_ptr<const ByteBuffer> block(const Hdf5Reader& from, std::size_t file, std::size_t field,
                                                        std::int64_t number);
  /// The same if it is in memory, else null.
  [[nodiscard]] std::shared_ptr<const ByteBuffer> find_block(std::size_t file, std::size_t field, std::int64_t number) {
    return blocks_.find(key_of(file, field, number));
  }
  /// Closes a file; the next reader() opens it again.
  void close(std::size_t file) { readers_.erase(file); }
  /// As Dataset::share().
  void share(int ranks);

  [[nodiscard]] std::int64_t open_files() const override { return readers_.size(); }
  [[nodiscard]] Time oldest_use() const override { return readers_.oldest_use(); }
  void close_oldest() override { readers_.drop_oldest(); }

  Hdf5Table table;
  std::shared_ptr<IoCounters> counters = std::make_shared<IoCounters>();
  ReadPool pool{kReadsAtATime};

 private:
  [[nodiscard]] static std::uint64_t key_of(std::size_t file, std::size_t field, std::int64_t number);

  ShardDatasetOptions options_;
  LruCache<Hdf5Reader> readers_;
  FileBudget files_;
  std::int64_t room_;
  LruCache<ByteBuffer> blocks_;
};

/// Dataset::read() of samples of these files. Thread-safe.
void read_samples(OpenIndex& files, std::span<const std::int64_t> indices, RawSamples& out,
                  std::vector<SampleError>* damaged);

}  // namespace mn::data

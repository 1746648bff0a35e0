/// Shards without files, for counting what reading asks for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>

#include <mn/data/manifest.hpp>
#include <mn/data/stored_file.hpp>

namespace mn::test {

/// What a walk has cost so far.
struct Meter {
  std::mutex mutex;  // guards the rest: files are read by many threads
  double bytes = 0;
  double opens = 0;
  double samples = 0;
  std::set<std::size_t> shards;
  std::int64_t index_bytes = 0;
  std::int64_t most_index_bytes = 0;
  std::int64_t most_block_bytes = 0;
};

/// A shard without a file: the reader takes it for one, and it counts what the reader asks for. Samples are empty, but
/// their blocks are as long as they would be.
class MeteredFile final : public data::StoredFile {
 public:
  MeteredFile(const data::ShardTable& table, std::size_t shard, std::int64_t sample_bytes, Meter& meter)
      : table_(table), size_(table.shards()[shard].num_samples), sample_bytes_(sample_bytes), meter_(meter) {
    const std::lock_guard lock(meter_.mutex);
    meter_.opens += 1;
    meter_.bytes += static_cast<double>(data::kUserBlockBytes) + static_cast<double>(index_bytes());
    meter_.shards.insert(shard);
    meter_.index_bytes += index_bytes();
    meter_.most_index_bytes = std::max(meter_.most_index_bytes, meter_.index_bytes);
  }
  ~MeteredFile() override {
    const std::lock_guard lock(meter_.mutex);
    meter_.index_bytes -= index_bytes();
  }

  [[nodiscard]] std::int64_t size() const noexcept override { return size_; }
  [[nodiscard]] std::int64_t length(std::size_t, std::int64_t) const override { return 0; }
  [[nodiscard]] bool is_small(std::size_t field) const noexcept override { return field == 1; }
  void copy_small(std::size_t, std::int64_t, std::byte* out) const override {
    std::memset(out, 0, sizeof(std::int64_t));
  }
  [[nodiscard]] std::int64_t index_bytes() const noexcept override {
    return size_ * table_.layout().index_bytes / std::max<std::int64_t>(table_.num_samples(), 1);
  }
  [[nodiscard]] std::int64_t block_of(std::size_t, std::int64_t sample) const override {
    return sample / table_.block_samples();
  }
  [[nodiscard]] std::int64_t first_sample(std::size_t, std::int64_t block) const override {
    return std::min(block * table_.block_samples(), size_);
  }
  [[nodiscard]] std::int64_t begin_of(std::size_t, std::int64_t sample) const override {
    return sample * sample_bytes_;
  }
  [[nodiscard]] bool has_runs(std::size_t) const noexcept override { return true; }
  void read_blocks(std::size_t field, std::int64_t first, std::int64_t count, std::span<std::byte>) const override {
    const std::lock_guard lock(meter_.mutex);
    for (std::int64_t b = first; b < first + count; ++b) meter_.bytes += static_cast<double>(block_bytes(field, b));
  }
  [[nodiscard]] bool is_good(std::size_t, std::int64_t, std::span<const std::byte>) const override { return true; }
  [[nodiscard]] std::string damage(std::size_t, std::int64_t) const override { return {}; }
  void will_read(std::size_t, std::int64_t, std::int64_t) const noexcept override {}

 private:
  const data::ShardTable& table_;
  std::int64_t size_;
  std::int64_t sample_bytes_;
  Meter& meter_;
};

/// A table whose shards are MeteredFiles.
class MeteredTable final : public data::ShardTable {
 public:
  MeteredTable(data::ShardTable table, std::int64_t sample_bytes, Meter& meter)
      : data::ShardTable(std::move(table)), sample_bytes_(sample_bytes), meter_(meter) {}
  [[nodiscard]] std::filesystem::path path(std::size_t) const override { return "/proc/self/exe"; }
  [[nodiscard]] std::shared_ptr<const data::StoredFile> open(std::size_t shard, File,
                                                             std::shared_ptr<data::IoCounters>) const override {
    return std::make_shared<const MeteredFile>(*this, shard, sample_bytes_, meter_);
  }

 private:
  std::int64_t sample_bytes_;
  Meter& meter_;
};

}  // namespace mn::test

/// A dataset in ordinary HDF5 files, which `mnshard index` has indexed.
#pragma once

#include <mn/data/dataset.hpp>
#include <mn/data/hdf5_reading.hpp>
#include <mn/data/hdf5_table.hpp>

namespace mn::data {

/// Opens a file when one of its samples is read. Blocks of samples (chunks, decoded, or 64 KiB of contiguous data) stay
/// in memory, up to a limit in bytes, until each of their samples has been read. Errors of a file server that may pass
/// are retried, as in shards.
class Hdf5Dataset final : public Dataset {
 public:
  explicit Hdf5Dataset(Hdf5Table table, const ShardDatasetOptions& options = {}) : files_(std::move(table), options) {}

  [[nodiscard]] const Hdf5Table& hdf5_table() const noexcept { return files_.table; }

 private:
  std::int64_t do_size() const override { return files_.table.num_samples(); }
  const SampleSpec& do_spec() const override { return files_.table.spec(); }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override {
    read_samples(files_, indices, out, damaged);
  }
  std::string do_format() const override { return kShardsFormat; }
  std::string do_table() const override { return files_.table.serialize(); }
  std::uint64_t do_fingerprint() const override { return files_.table.hash(); }
  IoStats do_io() const override { return {files_.counters->opens, files_.counters->bytes}; }
  std::string do_where(std::int64_t index) const override {
    const auto [file, sample] = files_.table.locate(index);
    return files_.table.path(file).string() + ": sample " + std::to_string(sample);
  }
  StorageLayout do_layout() const override { return files_.table.layout(); }
  void do_share(int ranks) override { files_.share(ranks); }

  mutable OpenIndex files_;
};

}  // namespace mn::data

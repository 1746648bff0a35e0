/// Datasets in files: shards, or ordinary HDF5 files.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include <mn/data/dataset.hpp>
#include <mn/data/open_files.hpp>

namespace mn::data {

/// A dataset that opens a file at the first read from it, and reads whole blocks, which stay in memory until all their
/// samples were read. After EIO, ESTALE or ETIMEDOUT, a read pauses, opens the file again, and retries. If all retries
/// fail, the file's samples count as damaged.
class StoredDataset final : public Dataset {
 public:
  /// The constructor reads nothing. The first use reads the manifest of `name_or_path` (see open_dataset()) and
  /// compares the files with it.
  explicit StoredDataset(std::string name_or_path, const StoredDatasetOptions& options = {})
      : name_(std::move(name_or_path)), options_(options) {}
  explicit StoredDataset(std::shared_ptr<const StoredTable> table, const StoredDatasetOptions& options = {});

  [[nodiscard]] const StoredTable& stored_table() const { return opened().table(); }

 private:
  std::int64_t do_size() const override { return stored_table().num_samples(); }
  const SampleSpec& do_spec() const override { return stored_table().spec(); }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override {
    read_samples(opened(), indices, out, damaged);
  }
  RawColumn do_read_field(std::span<const std::int64_t> indices, std::size_t field) const override {
    RawSamples samples;
    read_samples(opened(), indices, samples, nullptr, field);
    return std::move(samples.columns[field]);
  }
  std::string do_format() const override { return kShardsFormat; }
  std::string do_table() const override { return stored_table().serialize(); }
  std::uint64_t do_fingerprint() const override { return stored_table().hash(); }
  IoStats do_io() const override;
  std::string do_where(std::int64_t index) const override;
  StorageLayout do_layout() const override { return stored_table().layout(); }
  void do_share(int ranks) override { opened().share(ranks); }
  void do_hold_at_most(std::int64_t bytes) const override { opened().hold_at_most(bytes); }
  void do_stage(const StageOptions& options, std::shared_ptr<const StageNode> node) override {
    opened().stage(options, std::move(node));
  }

  [[nodiscard]] OpenFiles& opened() const;

  std::string name_;
  StoredDatasetOptions options_;
  std::shared_ptr<IoCounters> counters_ = std::make_shared<IoCounters>();
  mutable std::mutex mutex_;
  mutable std::unique_ptr<OpenFiles> opened_;  // made at first use, never replaced
};

/// Finds a dataset's folder as open_dataset() does. If there is none, throws a DataError that lists the folders
/// searched.
[[nodiscard]] std::filesystem::path find_dataset(const std::string& name_or_path,
                                                 const std::filesystem::path& installed = {});

/// Reads the folder's manifest, which lists shards or indexed HDF5 files. Throws as read_manifest() does.
[[nodiscard]] std::shared_ptr<const StoredTable> read_table(const std::filesystem::path& folder);

}  // namespace mn::data

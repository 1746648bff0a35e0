// open_dataset() and open_table(): datasets by name or table, in shards or in indexed files.
#include <mutex>

#include <mn/data/hdf5_dataset.hpp>
#include <mn/data/shard_dataset.hpp>

namespace mn {
namespace data {
namespace {

/// Reads the manifest at first use, and then is what that describes.
class NamedDataset final : public Dataset {
 public:
  NamedDataset(std::string name, std::filesystem::path installed)
      : name_(std::move(name)), installed_(std::move(installed)) {}

 private:
  std::int64_t do_size() const override { return opened().size(); }
  const SampleSpec& do_spec() const override { return opened().spec(); }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override {
    opened().read(indices, out, damaged);
  }
  std::string do_format() const override { return opened().format(); }
  std::string do_table() const override { return opened().table(); }
  std::uint64_t do_fingerprint() const override { return opened().fingerprint(); }
  IoStats do_io() const override { return opened().io(); }
  std::string do_where(std::int64_t index) const override { return opened().where(index); }
  StorageLayout do_layout() const override { return opened().layout(); }
  void do_share(int ranks) override { opened().share(ranks); }
  void do_stage(const StageOptions& options, std::shared_ptr<const StageFile> file, int parts) override {
    opened().stage(options, std::move(file), parts);
  }

  Dataset& opened() const {
    const std::lock_guard lock(mutex_);
    if (!opened_) opened_ = open();
    return *opened_;
  }

  std::unique_ptr<Dataset> open() const {
    const std::filesystem::path folder = find_dataset(name_, installed_);
    if (!has_hdf5_manifest(folder)) return std::make_unique<ShardDataset>(folder.string());
    Hdf5Table table = read_hdf5_manifest(folder);
    check_unchanged(table);
    return std::make_unique<Hdf5Dataset>(std::move(table));
  }

  std::string name_;
  std::filesystem::path installed_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Dataset> opened_;  // made at first use, never replaced
};

}  // namespace
}  // namespace data

std::shared_ptr<Dataset> open_dataset(const std::string& name_or_path, const std::filesystem::path& installed) {
  return std::make_shared<data::NamedDataset>(name_or_path, installed);
}

std::shared_ptr<Dataset> open_table(const std::string& table) {
  if (data::Hdf5Table::is_table(table)) {
    return std::make_shared<data::Hdf5Dataset>(data::Hdf5Table::parse(table));
  }
  return std::make_shared<data::ShardDataset>(data::ShardTable::parse(table));
}

}  // namespace mn

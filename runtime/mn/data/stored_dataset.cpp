#include <mn/data/stored_dataset.hpp>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/data/hdf5_table.hpp>
#include <mn/data/joined_dataset.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/nested_table.hpp>
#include <mn/data/subset.hpp>

namespace mn {
namespace data {
namespace {

std::vector<std::filesystem::path> candidates(const std::filesystem::path& name,
                                              const std::filesystem::path& installed) {
  std::vector<std::filesystem::path> folders = {name};
  if (name.is_absolute()) return folders;
  if (const auto root = environment("MN_DATA")) folders.push_back(std::filesystem::path(*root) / name);
  folders.push_back("data" / name);
  // Executables lie in BUILD, BUILD/jobs, PREFIX/bin or PREFIX/bin/jobs, so `data` may be two folders further up.
  std::filesystem::path beside = executable_path().parent_path();
  for (int up = 0; up < 3; ++up, beside = beside.parent_path()) {
    folders.push_back(beside / "data" / name);
    folders.push_back(beside / "share/mn/data" / name);
  }
  if (!installed.empty()) folders.push_back(installed / name);
  return folders;
}

}  // namespace

std::shared_ptr<const StoredTable> read_table(const std::filesystem::path& folder) {
  if (has_hdf5_manifest(folder)) return std::make_shared<const Hdf5Table>(read_hdf5_manifest(folder));
  return std::make_shared<const ShardTable>(read_manifest(folder));
}

std::filesystem::path find_dataset(const std::string& name_or_path, const std::filesystem::path& installed) {
  const auto folders = candidates(name_or_path, installed);
  for (const auto& folder : folders) {
    std::error_code error;
    if (std::filesystem::exists(folder / kDatasetManifest, error)) return std::filesystem::absolute(folder);
  }
  const std::string looked = join(folders, ", ", [](const std::filesystem::path& folder) { return folder.string(); });
  throw DataError("no dataset \"" + name_or_path + "\" (looked for " + kDatasetManifest + " in " + looked +
                  "): give its folder, set MN_DATA, or make it with mnshard, e.g. `mnshard idx data/mnist --out DIR`");
}

StoredDataset::StoredDataset(std::shared_ptr<const StoredTable> table, const StoredDatasetOptions& options)
    : options_(options), opened_(std::make_unique<OpenFiles>(std::move(table), options_, counters_)) {}

OpenFiles& StoredDataset::opened() const {
  const std::lock_guard lock(mutex_);
  if (!opened_) {
    auto table = read_table(find_dataset(name_, options_.installed));
    table->check_all();
    opened_ = std::make_unique<OpenFiles>(std::move(table), options_, counters_);
  }
  return *opened_;
}

IoStats StoredDataset::do_io() const {
  const std::lock_guard lock(mutex_);
  return {counters_->opens, counters_->bytes, opened_ ? opened_->block_bytes() : 0};
}

std::string StoredDataset::do_where(std::int64_t index) const {
  const auto [file, sample] = stored_table().locate(index);
  const std::string text = stored_table().path(file).string() + ": sample " + std::to_string(sample);
  try {
    const std::string source = opened().open(file).file->source_of(sample);
    return source.empty() ? text : text + " from " + source;
  } catch (const DataError&) {  // the caller reports the sample's error, not this one
    return text;
  }
}

}  // namespace data

namespace {

std::shared_ptr<Dataset> open_nested(const nlohmann::json& nested) {
  return read_json(data::kNestedTableName, [&]() -> std::shared_ptr<Dataset> {
    std::vector<std::shared_ptr<Dataset>> parts;
    for (const nlohmann::json& table : nested.at("tables")) {
      const auto& bytes = table.get_binary();
      parts.push_back(open_table({bytes.begin(), bytes.end()}));
    }
    const nlohmann::json& how = nested.at("how");
    if (how.contains("indices")) return subset(parts.at(0), whole_numbers<std::int64_t>(how.at("indices")));
    return std::make_shared<JoinedDataset>(parts, how.at("shares").get<std::vector<double>>());
  });
}

}  // namespace

std::shared_ptr<Dataset> open_dataset(const std::string& name_or_path, const std::filesystem::path& installed) {
  return std::make_shared<data::StoredDataset>(name_or_path, data::StoredDatasetOptions{.installed = installed});
}

std::shared_ptr<Dataset> open_table(const std::string& table) {
  if (const auto nested = data::parse_nested_table(table)) return open_nested(*nested);
  if (data::Hdf5Table::is_table(table)) {
    return std::make_shared<data::StoredDataset>(
        std::make_shared<const data::Hdf5Table>(data::Hdf5Table::parse(table)));
  }
  return std::make_shared<data::StoredDataset>(
      std::make_shared<const data::ShardTable>(data::ShardTable::parse(table)));
}

}  // namespace mn

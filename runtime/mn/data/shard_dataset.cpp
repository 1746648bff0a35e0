#include <algorithm>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/data/check_shards.hpp>
#include <mn/data/shard_dataset.hpp>

namespace mn::data {
namespace {

std::vector<std::filesystem::path> candidates(const std::filesystem::path& name,
                                              const std::filesystem::path& installed) {
  std::vector<std::filesystem::path> folders = {name};
  if (name.is_absolute()) return folders;
  if (const auto root = environment("MN_DATA")) folders.push_back(std::filesystem::path(*root) / name);
  folders.push_back("data" / name);
  // Executables lie in BUILD or BUILD/jobs, installed ones in PREFIX/bin or PREFIX/bin/jobs.
  std::filesystem::path beside = executable_path().parent_path();
  for (int up = 0; up < 3; ++up, beside = beside.parent_path()) {
    folders.push_back(beside / "data" / name);
    folders.push_back(beside / "share/mn/data" / name);
  }
  if (!installed.empty()) folders.push_back(installed / name);  // for programs that lie elsewhere
  return folders;
}

}  // namespace

std::filesystem::path find_dataset(const std::string& name_or_path, const std::filesystem::path& installed) {
  const auto folders = candidates(name_or_path, installed);
  std::string looked;
  for (const auto& folder : folders) {
    std::error_code error;
    if (std::filesystem::exists(folder / kManifestName, error)) return std::filesystem::absolute(folder);
    looked += (looked.empty() ? "" : ", ") + folder.string();
  }
  throw DataError("no dataset \"" + name_or_path + "\" (looked for " + kManifestName + " in " + looked +
                  "): give its folder, set MN_DATA, or make it with mnshard, e.g. `mnshard idx data/mnist --out DIR`");
}

ShardDataset::ShardDataset(std::string name_or_path, const ShardDatasetOptions& options)
    : name_(std::move(name_or_path)), options_(options) {}

ShardDataset::ShardDataset(ShardTable table, const ShardDatasetOptions& options)
    : options_(options), opened_(open(std::move(table))) {}

std::unique_ptr<OpenShards> ShardDataset::open(ShardTable table) const {
  return std::make_unique<OpenShards>(std::move(table), options_, counters_);
}

OpenShards& ShardDataset::opened() const {
  const std::lock_guard lock(mutex_);
  if (!opened_) {
    ShardTable table = read_manifest(find_dataset(name_, options_.installed));
    check_shards(table);
    opened_ = open(std::move(table));
  }
  return *opened_;
}

std::string ShardDataset::do_where(std::int64_t index) const {
  const auto [shard, sample] = shard_table().locate(index);
  return shard_table().path(shard).string() + ": sample " + std::to_string(sample);
}

}  // namespace mn::data

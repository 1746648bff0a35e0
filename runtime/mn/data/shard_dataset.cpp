#include <cstring>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/data/shard_dataset.hpp>

namespace mn {
namespace data {
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

void report(const std::string& what, std::int64_t position, std::vector<SampleError>* damaged) {
  if (damaged == nullptr) throw DataError(what);
  damaged->push_back({position, what});
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
    : name_(std::move(name_or_path)),
      installed_(options.installed),
      readers_(options.open_shards),
      blocks_(options.cache_bytes) {}

ShardDataset::ShardDataset(ShardTable table, const ShardDatasetOptions& options)
    : table_(std::move(table)), readers_(options.open_shards), blocks_(options.cache_bytes) {}

const ShardTable& ShardDataset::shard_table() const {
  const std::lock_guard lock(table_mutex_);
  if (!table_) {
    ShardTable table = read_manifest(find_dataset(name_, installed_));
    check_shards(table);
    table_ = std::move(table);
  }
  return *table_;
}

std::shared_ptr<const ShardReader> ShardDataset::reader(std::size_t shard) const {
  if (auto found = readers_.find(shard)) return found;
  auto opened = std::make_shared<const ShardReader>(open_shard(*table_, shard), counters_);
  if (opened->size() != table_->shards()[shard].num_samples || opened->header().kind != table_->spec().kind ||
      opened->header().sample_bytes() != table_->spec().sample_bytes()) {
    throw DataError(opened->path() +
                    " is another kind of shard than the manifest says: make the shards again with mnshard");
  }
  readers_.insert(shard, opened, 1);
  return opened;
}

/// Null if the block is damaged.
std::shared_ptr<const ShardDataset::Block> ShardDataset::block(const ShardReader& reader, std::size_t shard,
                                                               std::int64_t block) const {
  const std::uint64_t key = static_cast<std::uint64_t>(shard) << 32 | static_cast<std::uint64_t>(block);
  if (auto found = blocks_.find(key)) return found;
  auto bytes = std::make_shared<Block>(reader.block_bytes(block));
  if (!reader.read_block(block, *bytes)) return nullptr;
  blocks_.insert(key, bytes, static_cast<std::int64_t>(bytes->size()));
  return bytes;
}

std::string ShardDataset::do_where(std::int64_t index) const {
  const auto [shard, sample] = shard_table().locate(index);
  return table_->path(shard).string() + ": sample " + std::to_string(sample);
}

void ShardDataset::do_read(std::span<const std::int64_t> indices, RawSamples& out,
                           std::vector<SampleError>* damaged) const {
  out.labels.clear();
  out.offsets.assign(1, 0);
  if (spec().kind == SampleKind::kFixed) {
    read_fixed(indices, out, damaged);
  } else {
    read_encoded(indices, out, damaged);
  }
}

void ShardDataset::read_encoded(std::span<const std::int64_t> indices, RawSamples& out,
                                std::vector<SampleError>* damaged) const {
  // Room for all of them first: a vector that grows copies itself again and again.
  std::int64_t total = 0;
  for (const std::int64_t index : indices) {
    const auto [shard, sample] = table_->locate(index);
    total += reader(shard)->length(sample);
  }
  out.bytes.resize(total);
  std::int64_t begin = 0;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const auto [shard, sample] = table_->locate(indices[k]);
    const auto from = reader(shard);
    const std::int64_t length = from->length(sample);
    if (from->read_sample(sample, std::span(out.bytes).subspan(begin, length))) {
      begin += length;
    } else {
      report(from->damage(sample), static_cast<std::int64_t>(k), damaged);
    }
    out.offsets.push_back(begin);
    out.labels.push_back(from->label(sample));
  }
  out.bytes.resize(begin);
}

void ShardDataset::read_fixed(std::span<const std::int64_t> indices, RawSamples& out,
                              std::vector<SampleError>* damaged) const {
  const std::int64_t length = spec().sample_bytes();
  out.bytes.resize(indices.size() * length);
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const auto [shard, sample] = table_->locate(indices[k]);
    const auto from = reader(shard);
    const auto bytes = block(*from, shard, sample / kBlockSamples);
    std::byte* to = out.bytes.data() + k * length;
    if (bytes == nullptr) {
      if (length > 0) std::memset(to, 0, length);
      report(from->damage(sample), static_cast<std::int64_t>(k), damaged);
    } else if (length > 0) {
      std::memcpy(to, bytes->data() + sample % kBlockSamples * length, length);
    }
    out.offsets.push_back(static_cast<std::int64_t>(k + 1) * length);
    out.labels.push_back(from->label(sample));
  }
}

}  // namespace data

std::shared_ptr<Dataset> open_dataset(const std::string& name_or_path, const std::filesystem::path& installed) {
  return std::make_shared<data::ShardDataset>(name_or_path, data::ShardDatasetOptions{.installed = installed});
}

std::shared_ptr<Dataset> open_table(const std::string& table) {
  return std::make_shared<data::ShardDataset>(data::ShardTable::parse(table));
}

}  // namespace mn

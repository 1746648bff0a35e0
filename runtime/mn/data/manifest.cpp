// The shard table: as a file, on the wire, and in memory.
//
//   file  512 bytes of seal (magic, version, CRC32C and length of the rest), then HDF5: attributes for the spec, one
//         dataset for each column
//   wire  CBOR: the spec's keys, the columns, the folder
//
// (1) No damaged byte reaches libhdf5, which is not made for it: the seal covers the whole file.
// (2) hash() covers everything but the folder. It is the dataset's fingerprint in checkpoints: neither keys nor their
//     encoding may change.
// (3) A table that parses has columns of one length, counts that can't overflow, and file names without a folder.
// (4) A manifest is published by rename(2), after all shards: where there is one, the dataset is complete.
//
// Cost: about 100 bytes a shard, read by one rank; locate() is a binary search.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/data/hdf5.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/retry.hpp>
#include <mn/data/shard_reader.hpp>

namespace mn::data {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "mn-manifest";
constexpr std::uint32_t kManifestVersion = 1;
constexpr const char* kTable = "a shard table";  // in messages
constexpr std::size_t kSealBytes = 512;          // the smallest user block
constexpr std::int64_t kMostSamples = std::int64_t{1} << 40;
constexpr const char* kBlockSamples = "block_samples";  // the attribute; absent in tables of version 1 shards

/// The user block before the HDF5 file: libhdf5 is not made for damaged files, so none may reach it.
struct Seal {
  char magic[8] = {'M', 'N', 'M', 'A', 'N', 'I', 'F', '\n'};
  std::uint32_t version = kManifestVersion;
  std::uint32_t crc = 0;  // of all that follows the block
  std::uint64_t file_bytes = 0;
  bool operator==(const Seal&) const = default;
};

Seal seal_of(std::string_view file) {
  Seal seal;
  seal.crc = crc32c(std::as_bytes(std::span(file.substr(kSealBytes))));
  seal.file_bytes = file.size();
  return seal;
}

void check_seal(const std::string& file) {
  Seal seal;
  if (file.size() < kSealBytes) throw DataError("it has only " + std::to_string(file.size()) + " bytes");
  std::memcpy(&seal, file.data(), sizeof seal);
  if (std::memcmp(seal.magic, Seal().magic, sizeof seal.magic) != 0) throw DataError("it is another kind of file");
  if (seal.version != kManifestVersion) throw DataError("it has version " + std::to_string(seal.version));
  if (seal != seal_of(file)) throw DataError("its checksum or length differs");
}

void write_seal(const std::filesystem::path& path) {
  const Seal seal = seal_of(read_file(path));
  File(path, File::Mode::kUpdate).write_at(0, std::as_bytes(std::span(&seal, 1)));
}

/// The shards by columns, as both the file and the wire keep them.
struct Columns {
  std::vector<std::string> files;
  std::vector<std::int64_t> num_samples;
  std::vector<std::int64_t> bytes;
  std::vector<std::uint8_t> uuids;  // 16 a shard
  std::vector<std::int64_t> header_crcs;
};

Columns columns_of(const std::vector<ShardInfo>& shards) {
  Columns columns;
  for (const ShardInfo& shard : shards) {
    columns.files.push_back(shard.file);
    columns.num_samples.push_back(shard.num_samples);
    columns.bytes.push_back(shard.bytes);
    for (const std::byte b : shard.uuid) columns.uuids.push_back(std::to_integer<std::uint8_t>(b));
    columns.header_crcs.push_back(shard.header_crc);
  }
  return columns;
}

std::vector<ShardInfo> shards_of(const Columns& columns) {
  const std::size_t n = columns.files.size();
  if (columns.num_samples.size() != n || columns.bytes.size() != n || columns.uuids.size() != n * sizeof(Uuid) ||
      columns.header_crcs.size() != n) {
    throw DataError("the columns of a shard table differ in length");
  }
  std::vector<ShardInfo> shards(n);
  for (std::size_t i = 0; i < n; ++i) {
    shards[i].file = columns.files[i];
    shards[i].num_samples = columns.num_samples[i];
    shards[i].bytes = columns.bytes[i];
    std::memcpy(shards[i].uuid.data(), &columns.uuids[i * sizeof(Uuid)], sizeof(Uuid));
    shards[i].header_crc = static_cast<std::uint32_t>(columns.header_crcs[i]);
    if (shards[i].num_samples < 0 || shards[i].num_samples > kMostSamples || shards[i].bytes < 0) {
      throw DataError("a shard table has impossible numbers");
    }
    if (shards[i].file.find('/') != std::string::npos) throw DataError("a shard table names a file outside its folder");
  }
  return shards;
}

/// Of tables that do not say it.
std::int64_t version1_block_samples(const SampleSpec& spec) {
  return spec.kind == SampleKind::kEncoded ? 1 : kVersion1BlockSamples;
}

/// The table but for its folder.
json content(const ShardTable& table) {
  Columns columns = columns_of(table.shards());
  json document = to_json(table.spec());
  document["split"] = table.split();
  document["files"] = columns.files;
  document["num_samples"] = columns.num_samples;
  document["bytes"] = columns.bytes;
  document["uuids"] = json::binary(std::move(columns.uuids));
  document["header_crcs"] = columns.header_crcs;
  if (table.block_samples() != version1_block_samples(table.spec())) document["block_samples"] = table.block_samples();
  return document;
}

std::int64_t checked_block_samples(std::int64_t samples, const SampleSpec& spec) {
  const bool good = spec.kind == SampleKind::kEncoded ? samples == 1 : samples >= 1 && samples <= kMostSamples;
  if (!good) throw DataError(std::string(kTable) + " has blocks of " + std::to_string(samples) + " samples");
  return samples;
}

SampleSpec spec_from(const json& document) {
  SampleSpec spec = sample_spec_from_json(document, kTable);
  if (!can_store(spec.dtype)) {
    throw DataError(std::string(kTable) + " has samples of " + std::string(name_of(spec.dtype)) +
                    ", which no shard can hold");
  }
  return spec;
}

std::vector<std::int64_t> read_column(hid_t file, const char* name) {
  std::vector<std::int64_t> column(h5_count(file, name));
  h5_read_array(file, name, column);
  return column;
}

std::int64_t read_number(hid_t file, const char* name) {
  const auto numbers = h5_read_numbers(file, name);
  if (numbers.size() != 1) throw DataError(std::string("its attribute \"") + name + "\" is not one number");
  return numbers[0];
}

ShardTable read_table(hid_t file, const std::string& folder) {
  if (h5_read_text(file, "format") != kFormat) throw DataError("it is another kind of HDF5 file");
  SampleSpec spec = spec_from({{"kind", read_number(file, "kind")},
                               {"dtype", read_number(file, "dtype")},
                               {"shape", h5_read_numbers(file, "shape")},
                               {"num_classes", read_number(file, "num_classes")},
                               {"class_names", h5_read_strings(file, "class_names")}});
  Columns columns;
  columns.files = h5_read_strings(file, "file");
  columns.num_samples = read_column(file, "num_samples");
  columns.bytes = read_column(file, "bytes");
  columns.header_crcs = read_column(file, "header_crc");
  columns.uuids.resize(h5_count(file, "uuid"));
  h5_read_array(file, "uuid", columns.uuids);
  const std::int64_t block_samples =
      h5_has_attribute(file, kBlockSamples) ? read_number(file, kBlockSamples) : version1_block_samples(spec);
  return {folder, h5_read_text(file, "split"), spec, shards_of(columns), checked_block_samples(block_samples, spec)};
}

void write_table(hid_t file, const ShardTable& table) {
  const SampleSpec& spec = table.spec();
  const Columns columns = columns_of(table.shards());
  const auto number = [&](const char* name, std::int64_t value) {
    h5_write_attribute(file, name, std::span(&value, 1));
  };
  h5_write_attribute(file, "format", std::string(kFormat));
  number("version", kManifestVersion);
  h5_write_attribute(file, "split", table.split());
  number("kind", static_cast<std::int64_t>(spec.kind));
  number("dtype", static_cast<std::int64_t>(spec.dtype));
  h5_write_attribute(file, "shape", std::span(spec.shape));
  number("num_classes", spec.num_classes);
  number("total_samples", table.num_samples());
  if (table.block_samples() != version1_block_samples(spec)) number(kBlockSamples, table.block_samples());
  const hsize_t n = columns.files.size();
  const hsize_t uuid_shape[] = {n, sizeof(Uuid)};
  h5_write_strings(file, "class_names", spec.class_names);
  h5_write_strings(file, "file", columns.files);
  h5_write_array(file, "num_samples", columns.num_samples, std::span(&n, 1));
  h5_write_array(file, "bytes", columns.bytes, std::span(&n, 1));
  h5_write_array(file, "header_crc", columns.header_crcs, std::span(&n, 1));
  h5_write_array(file, "uuid", columns.uuids, uuid_shape);
}

}  // namespace

ShardTable::ShardTable(std::string folder, std::string split, SampleSpec spec, std::vector<ShardInfo> shards)
    : ShardTable(std::move(folder), std::move(split), spec, std::move(shards), new_block_samples(spec)) {}

ShardTable::ShardTable(std::string folder, std::string split, SampleSpec spec, std::vector<ShardInfo> shards,
                       std::int64_t block_samples)
    : folder_(std::move(folder)),
      split_(std::move(split)),
      spec_(std::move(spec)),
      shards_(std::move(shards)),
      block_samples_(block_samples) {
  for (const ShardInfo& shard : shards_) firsts_.push_back(firsts_.back() + shard.num_samples);
}

std::int64_t ShardTable::total_bytes() const noexcept {
  std::int64_t total = 0;
  for (const ShardInfo& shard : shards_) total += shard.bytes;
  return total;
}

StorageLayout ShardTable::layout() const noexcept {
  // A label of each sample, the checksum of each block, and where each encoded sample begins.
  const std::int64_t offsets = spec_.kind == SampleKind::kEncoded ? 8 : 0;
  return {.bytes = total_bytes(),
          .files = static_cast<std::int64_t>(shards_.size()),
          .block_samples = block_samples_,
          .index_bytes = num_samples() * (4 + offsets) + num_samples() / block_samples_ * 4};
}

std::filesystem::path ShardTable::path(std::size_t shard) const {
  return std::filesystem::path(folder_) / shards_[shard].file;
}

std::pair<std::size_t, std::int64_t> ShardTable::locate(std::int64_t sample) const {
  const auto next = std::upper_bound(firsts_.begin(), firsts_.end(), sample);
  const auto shard = static_cast<std::size_t>(next - firsts_.begin()) - 1;
  return {shard, sample - firsts_[shard]};
}

std::uint64_t ShardTable::hash() const {
  const auto bytes = json::to_cbor(content(*this));
  return hash64(std::as_bytes(std::span(bytes)));
}

std::string ShardTable::serialize() const {
  json document = content(*this);
  document["folder"] = folder_;
  std::string bytes;
  json::to_cbor(document, bytes);
  return bytes;
}

ShardTable ShardTable::parse(const std::string& bytes) {
  const json document = parse_cbor(bytes, kTable);
  return read_json(kTable, [&]() -> ShardTable {
    SampleSpec spec = spec_from(document);
    Columns columns;
    columns.files = document.at("files").get<std::vector<std::string>>();
    columns.num_samples = document.at("num_samples").get<std::vector<std::int64_t>>();
    columns.bytes = document.at("bytes").get<std::vector<std::int64_t>>();
    columns.header_crcs = document.at("header_crcs").get<std::vector<std::int64_t>>();
    columns.uuids = document.at("uuids").get_binary();
    const std::int64_t block_samples = document.value("block_samples", version1_block_samples(spec));
    return {document.at("folder"), document.at("split"), spec, shards_of(columns),
            checked_block_samples(block_samples, spec)};
  });
}

void write_manifest(const ShardTable& table) {
  TemporaryFile temporary(std::filesystem::path(table.folder()) / kManifestName);
  {
    const H5Lock lock;
    const std::string what = "cannot create " + temporary.path().string();
    const H5 creation(H5Pcreate(H5P_FILE_CREATE), what);
    h5_check(H5Pset_userblock(creation.get(), kSealBytes), what);
    const H5 access = h5_file_access(what);
    H5 file(H5Fcreate(temporary.path().c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), what);
    write_table(file.get(), table);
    file.close("cannot write " + temporary.path().string());
  }
  write_seal(temporary.path());
  temporary.publish();
}

ShardTable read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifestName;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw DataError("there are no shards in " + folder.string() + " (no " + kManifestName +
                    "): make them with mnshard, e.g. `mnshard idx data/mnist --out DIR`");
  }
  try {
    const std::string bytes = with_retries([&] { return read_file(path); }, [] {});
    check_seal(bytes);
    const H5Lock lock;
    return read_table(h5_open_bytes(bytes, "cannot open it").get(), folder.string());
  } catch (const FileError&) {
    throw;  // says all there is to say
  } catch (const DataError& e) {
    throw DataError(path.string() + " is damaged or no manifest (" + e.what() +
                    "): make the shards again with mnshard");
  }
}

void check_shards(const ShardTable& table) {
  // Each waits for the file server, not for a core.
  constexpr std::size_t kShardsForThread = 16;
  constexpr std::size_t kMostThreads = 64;
  const std::size_t shards = table.shards().size();
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // guards the rest
  std::size_t bad = shards;
  std::exception_ptr error;
  const auto work = [&] {
    for (std::size_t i = next++; i < shards; i = next++) {
      try {
        with_retries([&] { (void)open_shard(table, i); }, [] {});
      } catch (...) {
        next = shards;
        const std::lock_guard lock(mutex);
        if (i < bad) error = std::current_exception();
        bad = std::min(bad, i);
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 1; t < std::min(kMostThreads, shards / kShardsForThread); ++t) threads.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace mn::data

// Writes and reads manifest.h5. The file begins with a seal of 512 bytes: magic number, version, and the CRC32C and
// length of the bytes after the seal. An HDF5 file follows. In a manifest of shards, it has the dataset kFields with
// the spec, and a dataset for each column of the table. In a manifest of indexed HDF5 files, it has the dataset kIndex.
//
// (1) No damaged byte reaches libhdf5, which is not robust against damage, because the seal's checksum is compared
//     first.
// (2) A manifest is published by rename(2) after all shards, so a dataset with a manifest is complete.
#include <mn/data/manifest.hpp>

#include <cstring>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/file_kind.hpp>
#include <mn/core/json.hpp>
#include <mn/data/hdf5.hpp>
#include <mn/data/hdf5_table.hpp>
#include <mn/data/retry.hpp>

namespace mn::data {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "mn-manifest";
constexpr std::uint32_t kShardManifest = 2;  // version of a manifest of shards
constexpr std::uint32_t kIndexManifest = 3;  // version of a manifest of indexed HDF5 files
constexpr const char* kIndex = "index";      // HDF5 dataset that holds an Hdf5Table
constexpr std::size_t kSealBytes = 512;      // HDF5's smallest user block
constexpr const char* kFields = "fields";    // HDF5 dataset that holds the spec's JSON

/// HDF5's user block, which stands before the HDF5 file.
struct Seal {
  char magic[8] = {'M', 'N', 'M', 'A', 'N', 'I', 'F', '\n'};
  std::uint32_t version = kShardManifest;
  std::uint32_t crc = 0;  // CRC32C of all bytes after the seal
  std::uint64_t file_bytes = 0;
  bool operator==(const Seal&) const = default;
};

Seal seal_of(std::string_view file, std::uint32_t version) {
  Seal seal;
  seal.version = version;
  seal.crc = crc32c(std::as_bytes(std::span(file.substr(kSealBytes))));
  seal.file_bytes = file.size();
  return seal;
}

/// Throws DataError unless `file` has the bytes of a complete, undamaged manifest of this version.
void check_seal(const std::string& file, std::uint32_t version) {
  Seal seal;
  if (const auto kind = kind_of_file(file)) throw DataError("it is " + kind->name + ": " + kind->remedy);
  if (file.size() < kSealBytes) throw DataError("it has only " + std::to_string(file.size()) + " bytes");
  std::memcpy(&seal, file.data(), sizeof seal);
  if (std::memcmp(seal.magic, Seal().magic, sizeof seal.magic) != 0) throw DataError("it is another kind of file");
  if (seal.version != version) throw DataError("it has version " + std::to_string(seal.version));
  if (seal != seal_of(file, seal.version)) throw DataError("its checksum or length differs");
}

ShardTable read_table(hid_t file, const std::string& folder) {
  using Numbers = std::vector<std::int64_t>;
  if (h5_read_text(file, "format") != kFormat) throw DataError("it is another kind of HDF5 file");
  SampleSpec spec = spec_of_table(parse_json(h5_read_all<std::string>(file, kFields), kTableName));
  const Columns columns{.files = h5_read_strings(file, "file"),
                        .num_samples = h5_read_all<Numbers>(file, "num_samples"),
                        .bytes = h5_read_all<Numbers>(file, "bytes"),
                        .uuids = h5_read_all<std::vector<std::uint8_t>>(file, "uuid"),
                        .header_crcs = h5_read_all<Numbers>(file, "header_crc")};
  return {folder, h5_read_text(file, "split"), std::move(spec), shards_of(columns),
          checked_block_samples(h5_read_number(file, kBlockSamples))};
}

void write_table(hid_t file, const ShardTable& table) {
  const Columns columns = columns_of(table.shards());
  h5_write_attribute(file, "format", std::string(kFormat));
  h5_write_attribute(file, "version", kShardManifest);
  h5_write_attribute(file, "split", table.split());
  h5_write_attribute(file, "total_samples", table.num_samples());
  h5_write_attribute(file, kBlockSamples, table.block_samples());
  h5_write_array(file, kFields, json_text(to_json(table.spec())));
  h5_write_strings(file, "file", columns.files);
  h5_write_array(file, "num_samples", columns.num_samples);
  h5_write_array(file, "bytes", columns.bytes);
  h5_write_array(file, "header_crc", columns.header_crcs);
  h5_write_array(file, "uuid", columns.uuids, {columns.files.size(), sizeof(Uuid)});
}

/// Calls write(file) to fill the HDF5 file of the manifest, then publishes the manifest.
template <class Write>
void publish_manifest(const std::string& folder, std::uint32_t version, const Write& write) {
  TemporaryFile temporary(std::filesystem::path(folder) / kDatasetManifest);
  {
    const H5Lock lock;
    H5 file = h5_create_file(temporary.path(), kSealBytes);
    write(file.get());
    file.close("cannot write " + temporary.path().string());
  }
  const Seal seal = seal_of(read_file(temporary.path()), version);
  File(temporary.path(), File::Mode::kUpdate).write_at(0, std::as_bytes(std::span(&seal, 1)));
  temporary.publish();
}

/// Calls read() with the bytes of the folder's manifest.h5, and returns the result. If the manifest is missing or
/// damaged, throws a DataError that names it or the folder. If it is damaged, the text ends with `remedy`.
template <class Read>
auto read_sealed(const std::filesystem::path& folder, const char* remedy, const Read& read) {
  const std::filesystem::path path = folder / kDatasetManifest;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw DataError("there are no shards in " + folder.string() + " (no " + kDatasetManifest +
                    "): make them with mnshard, e.g. `mnshard idx data/mnist --out DIR`");
  }
  try {
    const std::string bytes = with_retries([&] { return read_file(path); }, [] {});
    return read(bytes);
  } catch (const FileError&) {
    throw;  // the error names the file and the reason already
  } catch (const DataError& e) {
    throw DataError(path.string() + " is damaged or no manifest (" + e.what() + "): " + remedy);
  }
}

}  // namespace

void write_manifest(const ShardTable& table) {
  publish_manifest(table.folder(), kShardManifest, [&](hid_t file) { write_table(file, table); });
}

ShardTable read_manifest(const std::filesystem::path& folder) {
  return read_sealed(folder, "make the shards again with mnshard", [&](const std::string& bytes) {
    check_seal(bytes, kShardManifest);
    const H5Lock lock;
    return read_table(h5_open_bytes(bytes, "cannot open it").get(), folder.string());
  });
}

void write_hdf5_manifest(const Hdf5Table& table) {
  publish_manifest(table.folder(), kIndexManifest,
                   [&](hid_t file) { h5_write_array(file, kIndex, table.serialize()); });
}

bool has_hdf5_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kDatasetManifest;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return false;
  Seal seal;
  const File file(path, File::Mode::kRead);
  if (file.size() < sizeof seal) return false;
  file.read_at(0, std::as_writable_bytes(std::span(&seal, 1)));
  return seal.version == kIndexManifest;
}

Hdf5Table read_hdf5_manifest(const std::filesystem::path& folder) {
  return read_sealed(folder, "make it again with mnshard index", [&](const std::string& bytes) {
    check_seal(bytes, kIndexManifest);
    const H5Lock lock;
    const H5 file = h5_open_bytes(bytes, "cannot open it");
    return Hdf5Table::parse(h5_read_all<std::string>(file.get(), kIndex), folder.string());
  });
}

}  // namespace mn::data

// Writes a shard in two steps: libhdf5 lays the file out, then pwrite fills it.
//
// HDF5 creates contiguous datasets with early allocation and no fill values, so each has its address before any byte is
// written; the user block in front records these addresses.
//
// (1) A reader sees the whole file or none: it is written under a temporary name and published by rename(2).
// (2) Equal content gives equal bytes and an equal uuid: no times, no random numbers.
// (3) Only the layout takes the HDF5 lock; checksums and samples are written without it, by several threads at once.
// (4) Any failure removes the temporary file.
//
// Cost: each byte is read once for its checksum and written once; sections are aligned to 4 KiB.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/hdf5.hpp>
#include <mn/data/shard_content.hpp>

namespace mn::data {
namespace {

constexpr hsize_t kAlignment = 4096;

/// One section: what HDF5 must make room for, and what is to lie there.
struct Part {
  Section section;
  hid_t type;
  std::vector<hsize_t> shape;
  std::span<const std::byte> bytes;
};

std::vector<std::uint32_t> checksums(const ShardContent& content, const ShardHeader& header) {
  std::vector<std::uint32_t> crcs;
  const std::span bytes(content.bytes);
  if (content.kind == SampleKind::kEncoded) {
    for (std::size_t i = 0; i < content.size(); ++i) {
      crcs.push_back(crc32c(bytes.subspan(content.offsets[i], content.offsets[i + 1] - content.offsets[i])));
    }
    return crcs;
  }
  const std::size_t block = content.size() == 0 ? 0 : bytes.size() / content.size() * header.block_samples;
  for (std::size_t first = 0; first < bytes.size(); first += block) {
    crcs.push_back(crc32c(bytes.subspan(first, std::min(block, bytes.size() - first))));
  }
  crcs.resize(header.num_checksums());  // samples without a byte
  return crcs;
}

/// 128 bits of hash of everything that readers get.
Uuid uuid_of(const ShardContent& content, std::span<const std::uint32_t> crcs) {
  Uuid uuid;
  for (std::uint64_t half = 0; half < 2; ++half) {
    std::uint64_t hash = hash64(std::as_bytes(crcs), half + 1);
    hash = hash64(std::as_bytes(std::span(content.labels)), hash);
    hash = hash64(std::as_bytes(std::span(content.offsets)), hash);
    hash = hash64(std::as_bytes(std::span(content.shape)), hash + static_cast<std::uint64_t>(content.dtype));
    hash = hash64(content.key_bytes, hash);
    std::memcpy(uuid.data() + 8 * half, &hash, sizeof hash);
  }
  return uuid;
}

std::vector<Part> parts_of(const ShardContent& content, std::span<const std::uint32_t> crcs) {
  const H5Lock lock;  // HDF5's types are made at first mention
  const hsize_t n = content.size();
  const auto bytes = [](const auto& values) { return std::as_bytes(std::span(values)); };
  std::vector<hsize_t> shape = {content.bytes.size()};
  const bool encoded = content.kind == SampleKind::kEncoded;
  if (!encoded) {
    shape = {n};
    shape.insert(shape.end(), content.shape.begin(), content.shape.end());
  }
  std::vector<Part> parts = {
      {Section::kBytes, h5_stored_type(content.dtype), shape, bytes(content.bytes)},
      {Section::kLabel, H5T_STD_I32LE, {n}, bytes(content.labels)},
      {Section::kCrc, H5T_STD_U32LE, {crcs.size()}, std::as_bytes(crcs)},
  };
  if (!encoded) return parts;
  parts.push_back({Section::kOffsets, H5T_STD_U64LE, {n + 1}, bytes(content.offsets)});
  parts.push_back({Section::kHwc, H5T_STD_U16LE, {n, 3}, bytes(content.hwc)});
  parts.push_back({Section::kKeyBytes, H5T_STD_U8LE, {content.key_bytes.size()}, bytes(content.key_bytes)});
  parts.push_back({Section::kKeyOffsets, H5T_STD_U64LE, {n + 1}, bytes(content.key_offsets)});
  return parts;
}

H5 create_file(const std::filesystem::path& path) {
  const std::string what = "cannot create " + path.string();
  const H5 creation(H5Pcreate(H5P_FILE_CREATE), what);
  h5_check(H5Pset_userblock(creation.get(), kUserBlockBytes), what);
  const H5 access = h5_file_access(what);
  h5_check(H5Pset_alignment(access.get(), kAlignment, kAlignment), what);
  return {H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), what};
}

/// A contiguous dataset whose room is allocated now and filled later, by pwrite. Returns its address in the file.
std::uint64_t allocate(hid_t file, const char* name, const Part& part) {
  const std::string what = std::string("cannot make room for ") + name;
  const H5 creation = h5_dataset_creation(what);
  h5_check(H5Pset_layout(creation.get(), H5D_CONTIGUOUS), what);
  h5_check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), what);
  h5_check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), what);
  const H5 space(H5Screate_simple(static_cast<int>(part.shape.size()), part.shape.data(), nullptr), what);
  const H5 dataset(H5Dcreate2(file, name, part.type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), what);
  if (part.bytes.empty()) return 0;
  const haddr_t address = H5Dget_offset(dataset.get());
  if (address == HADDR_UNDEF) throw DataError(what + ": HDF5 allocated no space");
  return address;
}

void write_attributes(hid_t file, const ShardContent& content, const ShardHeader& header) {
  const std::int64_t numbers[] = {header.version(), static_cast<std::int64_t>(content.size())};
  h5_write_attribute(file, "format", std::string("mn-shard"));
  h5_write_attribute(file, "version", std::span(numbers).first(1));
  h5_write_attribute(file, "num_samples", std::span(numbers).last(1));
  h5_write_attribute(file, "uuid", to_string(header.uuid));
  h5_write_attribute(file, "kind", std::string(content.kind == SampleKind::kFixed ? "fixed" : "encoded"));
  h5_write_attribute(file, "checksum", std::string("crc32c"));
  if (header.version() > 1) h5_write_attribute(file, "block_samples", std::span(&header.block_samples, 1));
  h5_write_attribute(file, "dtype", std::string(name_of(content.dtype)));
  if (!content.shape.empty()) h5_write_attribute(file, "shape", std::span(content.shape));
  for (const auto& [name, value] : content.attributes) h5_write_attribute(file, name.c_str(), value);
}

/// The file as HDF5 sees it, its datasets still without content; their extents go into `header`.
void lay_out(const std::filesystem::path& path, const ShardContent& content, const std::vector<Part>& parts,
             ShardHeader& header) {
  const H5Lock lock;
  H5 file = create_file(path);
  write_attributes(file.get(), content, header);
  (void)H5(H5Gcreate2(file.get(), "/data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "cannot make group /data");
  for (const Part& part : parts) {
    Extent& extent = header.at(part.section);
    extent.address = allocate(file.get(), name_of(part.section, content.kind), part);
    extent.bytes = part.bytes.size();
    if (part.section != Section::kBytes) extent.crc = crc32c(part.bytes);
  }
  file.close("cannot write " + path.string());
}

SampleSpec spec_of(const ShardContent& content) {
  return {.kind = content.kind, .dtype = content.dtype, .shape = content.shape, .num_classes = 0, .class_names = {}};
}

void check_lengths(const ShardContent& content) {
  const std::size_t n = content.size();
  const bool encoded = content.kind == SampleKind::kEncoded;
  const bool good = encoded ? content.offsets.size() == n + 1 && content.offsets.back() == content.bytes.size() &&
                                  content.hwc.size() == 3 * n && content.key_offsets.size() == n + 1
                            : content.bytes.size() == n * static_cast<std::size_t>(spec_of(content).sample_bytes());
  if (!good) throw ArgumentError("the bytes of a shard of " + std::to_string(n) + " samples and its labels mismatch");
}

}  // namespace

void ShardContent::add_encoded(std::span<const std::byte> sample, std::int32_t label,
                               std::array<std::uint16_t, 3> height_width_channels, std::string_view key) {
  bytes.insert(bytes.end(), sample.begin(), sample.end());
  offsets.push_back(bytes.size());
  labels.push_back(label);
  hwc.insert(hwc.end(), height_width_channels.begin(), height_width_channels.end());
  key_bytes += key;
  key_offsets.push_back(key_bytes.size());
}

std::string shard_name(const std::string& split, std::size_t index, std::size_t count) {
  char numbers[48];
  std::snprintf(numbers, sizeof numbers, "-%05zu-of-%05zu.h5", index, count);
  return split + numbers;
}

std::int64_t samples_per_shard(const SampleSpec& spec, std::int64_t shard_bytes) {
  const std::int64_t wanted = shard_bytes / std::max<std::int64_t>(spec.sample_bytes(), 1);
  const std::int64_t block = new_block_samples(spec);
  return wanted > block ? wanted / block * block : std::max(wanted, std::int64_t{1});
}

ShardInfo write_shard(const std::filesystem::path& path, const ShardContent& content) {
  check_lengths(content);
  ShardHeader header{.kind = content.kind,
                     .dtype = content.dtype,
                     .shape = content.shape,
                     .block_samples = new_block_samples(spec_of(content)),
                     .num_samples = content.size()};
  const auto crcs = checksums(content, header);
  const auto parts = parts_of(content, crcs);
  header.uuid = uuid_of(content, crcs);

  TemporaryFile temporary(path);
  lay_out(temporary.path(), content, parts, header);
  File file(temporary.path(), File::Mode::kUpdate);
  header.file_bytes = file.size();
  for (const Part& part : parts) file.write_at(header.at(part.section).address, part.bytes);
  const UserBlock block = encode_header(header);
  file.write_at(0, block);
  temporary.publish();
  return {path.filename().string(), static_cast<std::int64_t>(header.num_samples),
          static_cast<std::int64_t>(header.file_bytes), header.uuid, header_crc(block)};
}

}  // namespace mn::data

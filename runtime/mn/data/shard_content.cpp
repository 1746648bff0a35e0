// Writes a shard in two steps: libhdf5 lays the file out, then pwrite fills it.
//
// The datasets are contiguous, with early allocation and no fill values, so HDF5 fixes each dataset's address before
// any byte is written. The user block at the beginning of the file records these addresses.
//
// (1) A reader sees the whole file or no file: the shard is written under a temporary name and published by rename(2).
// (2) Equal content gives equal bytes, because a shard has no times and no random numbers.
// (3) The HDF5 lock is held only while a file is laid out, so several threads can write samples at once.
// (4) Any failure removes the temporary file.
#include <mn/data/shard_content.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/data/hdf5.hpp>

namespace mn::data {
namespace {

constexpr hsize_t kAlignment = 4096;

/// A dataset of the shard: shape and type of the HDF5 dataset, and the bytes to write there.
struct Part {
  std::vector<hsize_t> shape;
  std::span<const std::byte> bytes;
  DType dtype;
};

template <class Values>
Part part_of(const Values& values) {
  return {{values.size()}, std::as_bytes(std::span(values)), dtype_of<typename Values::value_type>()};
}

/// What is computed from a shard's samples.
struct Derived {
  // [fields] row at which each sample begins; empty for fixed fields
  std::vector<std::vector<std::uint64_t>> offsets;
  std::vector<std::vector<std::uint32_t>> crcs;  // [fields][blocks]
  std::vector<std::uint64_t> block_begins;       // [blocks + 1] in samples
};

std::span<const std::byte> bytes_of(const RawColumn& column, std::int64_t first, std::int64_t last) {
  const auto at = [&](std::int64_t i) { return column.offsets.empty() ? i * column.sample_bytes : column.offsets[i]; };
  return std::span(column.bytes).subspan(at(first), at(last) - at(first));
}

std::vector<std::uint64_t> blocks_of_samples(std::int64_t samples, std::int64_t block) {
  std::vector<std::uint64_t> begins;
  for (std::int64_t first = 0; first < samples; first += block) begins.push_back(static_cast<std::uint64_t>(first));
  begins.push_back(static_cast<std::uint64_t>(samples));
  return begins;
}

/// Cuts the samples into blocks of kBlockBytes to 2 · kBlockBytes, or of one longer sample. Returns the first sample of
/// each block, then the number of samples.
std::vector<std::uint64_t> blocks_of_bytes(const ShardContent& content, const ShardHeader& header) {
  std::vector<std::uint64_t> begins = {0};
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < content.size(); ++i) {
    std::int64_t own = 0;
    for (std::size_t f = 0; f < header.fields.size(); ++f) {
      if (!header.is_small(f)) own += std::ssize(bytes_of(content.samples.columns[f], i, i + 1));
    }
    if (bytes >= kBlockBytes || (bytes > 0 && bytes + own > 2 * kBlockBytes)) {
      begins.push_back(static_cast<std::uint64_t>(i));
      bytes = 0;
    }
    bytes += own;
  }
  if (content.size() > 0) begins.push_back(static_cast<std::uint64_t>(content.size()));
  return begins;
}

std::vector<std::uint32_t> checksums(const RawColumn& column, const std::vector<std::uint64_t>& block_begins) {
  std::vector<std::uint32_t> crcs;
  for (std::size_t block = 0; block + 1 < block_begins.size(); ++block) {
    crcs.push_back(crc32c(bytes_of(column, static_cast<std::int64_t>(block_begins[block]),
                                   static_cast<std::int64_t>(block_begins[block + 1]))));
  }
  return crcs;
}

Derived derive(const ShardContent& content, const ShardHeader& header) {
  Derived derived;
  derived.block_begins = has_block_table(header.spec, header.block_samples)
                             ? blocks_of_bytes(content, header)
                             : blocks_of_samples(content.size(), header.block_samples);
  for (std::size_t f = 0; f < content.samples.columns.size(); ++f) {
    const RawColumn& column = content.samples.columns[f];
    auto& offsets = derived.offsets.emplace_back();
    for (const std::int64_t at : column.offsets) offsets.push_back(at / content.spec[f].row_bytes());
    derived.crcs.emplace_back();
    if (!header.is_small(f)) derived.crcs[f] = checksums(column, derived.block_begins);
  }
  return derived;
}

/// A 128-bit hash of all content that readers get.
Uuid uuid_of(const ShardContent& content, const ShardHeader& header, const Derived& derived) {
  const auto of_fields = [&](std::uint64_t seed) {
    std::uint64_t hash = hash64(json_text(to_json(header.spec)), seed + header.num_samples);
    for (std::size_t f = 0; f < derived.crcs.size(); ++f) {
      hash = hash64(std::as_bytes(std::span(derived.crcs[f])), hash);
      hash = hash64(std::as_bytes(std::span(derived.offsets[f])), hash);
      if (header.is_small(f)) hash = hash64(std::span(content.samples.columns[f].bytes), hash);
    }
    return header.has_images ? hash64(content.key_bytes, hash) : hash;
  };
  Uuid uuid;
  for (std::uint64_t half = 0; half < 2; ++half) {
    const std::uint64_t hash = of_fields(half + 1);
    std::memcpy(uuid.data() + 8 * half, &hash, sizeof hash);
  }
  return uuid;
}

Part values_of(const ShardContent& content, std::size_t field) {
  const FieldSpec& spec = content.spec[field];
  const auto bytes = std::as_bytes(std::span(content.samples.columns[field].bytes));
  const bool fixed = spec.kind == FieldKind::kFixed;
  const auto rows = fixed ? content.size() : std::ssize(bytes) / spec.row_bytes();
  Part part{{static_cast<hsize_t>(rows)}, bytes, spec.dtype};
  part.shape.insert(part.shape.end(), spec.shape.begin(), spec.shape.end());
  return part;
}

/// The parts in the order of data::parts_of().
std::vector<Part> contents_of(const ShardContent& content, const ShardHeader& header, const Derived& derived) {
  std::vector<Part> parts;
  for (std::size_t f = 0; f < content.spec.fields.size(); ++f) {
    parts.push_back(values_of(content, f));
  }
  for (std::size_t f = 0; f < content.spec.fields.size(); ++f) {
    if (!header.is_small(f)) parts.push_back(part_of(derived.crcs[f]));
  }
  for (std::size_t f = 0; f < content.spec.fields.size(); ++f) {
    if (content.spec[f].kind != FieldKind::kFixed) parts.push_back(part_of(derived.offsets[f]));
  }
  if (header.block_begins.bytes > 0) parts.push_back(part_of(derived.block_begins));
  if (!header.has_images) return parts;
  parts.push_back(part_of(content.hwc));
  parts.back().shape = {content.hwc.size() / 3, 3};
  parts.push_back(part_of(content.key_bytes));
  parts.push_back(part_of(content.key_offsets));
  return parts;
}

/// Allocates a contiguous dataset, which pwrite fills later. Returns its address in the file.
std::uint64_t allocate(hid_t file, const std::string& name, const Part& part) {
  const std::string what = "cannot make room for " + name;
  const H5 creation = h5_dataset_creation(what);
  h5_check(H5Pset_layout(creation.get(), H5D_CONTIGUOUS), what);
  h5_check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), what);
  h5_check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), what);
  const H5 type = h5_element_type(part.dtype);
  const H5 space(H5Screate_simple(static_cast<int>(part.shape.size()), part.shape.data(), nullptr), what);
  const H5 dataset(H5Dcreate2(file, name.c_str(), type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                   what);
  if (part.bytes.empty()) return 0;
  const haddr_t address = H5Dget_offset(dataset.get());
  if (address == HADDR_UNDEF) throw DataError(what + ": HDF5 allocated no space");
  return address;
}

void write_attributes(hid_t file, const ShardContent& content, const ShardHeader& header) {
  h5_write_attribute(file, "format", std::string("mn-shard"));
  h5_write_attribute(file, "version", kShardVersion);
  h5_write_attribute(file, "num_samples", content.size());
  h5_write_attribute(file, "uuid", to_string(header.uuid));
  h5_write_attribute(file, "checksum", std::string("crc32c"));
  h5_write_attribute(file, "block_samples", header.block_samples);
  h5_write_attribute(file, "fields", json_text(to_json(header.spec).at("fields")));
  for (const auto& [name, value] : content.attributes) h5_write_attribute(file, name.c_str(), value);
}

/// Makes the HDF5 file with empty datasets, and stores their positions in `header`.
void lay_out(const std::filesystem::path& path, const ShardContent& content, const std::vector<Part>& parts,
             ShardHeader& header) {
  const H5Lock lock;
  H5 file = h5_create_file(path, kUserBlockBytes, kAlignment);
  write_attributes(file.get(), content, header);
  (void)H5(H5Gcreate2(file.get(), "/data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "cannot make group /data");
  const auto parts_in_file = parts_of(header);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Extent& extent = *parts_in_file[i].extent;
    extent.address = allocate(file.get(), parts_in_file[i].name, parts[i]);
    extent.bytes = parts[i].bytes.size();
    if (!parts_in_file[i].has_checksums) extent.crc = crc32c(parts[i].bytes);
  }
  file.close("cannot write " + path.string());
}

void check_lengths(const ShardContent& content, const ShardHeader& header) {
  SampleSpec spec = content.spec;
  check_samples(content.samples, spec);
  const auto n = static_cast<std::size_t>(content.size());
  if (!header.has_images || (content.hwc.size() == 3 * n && content.key_offsets.size() == n + 1)) return;
  throw ArgumentError("the images of a shard of " + std::to_string(n) + " samples and their names mismatch");
}

}  // namespace

void ShardContent::add_encoded(std::span<const std::byte> sample, std::int64_t label,
                               std::array<std::uint16_t, 3> height_width_channels, std::string_view key) {
  samples.add(spec, {sample, std::span(&label, 1)});
  add_info(height_width_channels, key);
}

void ShardContent::add_info(std::array<std::uint16_t, 3> height_width_channels, std::string_view key) {
  hwc.insert(hwc.end(), height_width_channels.begin(), height_width_channels.end());
  key_bytes += key;
  key_offsets.push_back(key_bytes.size());
}

std::string shard_file_name(const std::string& split, std::size_t index, std::size_t count) {
  char numbers[48];
  std::snprintf(numbers, sizeof numbers, "-%05zu-of-%05zu.h5", index, count);
  return split + numbers;
}

std::int64_t samples_per_shard(const SampleSpec& spec, std::int64_t shard_bytes) {
  const std::int64_t wanted = shard_bytes / std::max<std::int64_t>(spec.sample_bytes(), 1);
  const std::int64_t block = default_block_samples(spec);
  return wanted > block ? wanted / block * block : std::max(wanted, std::int64_t{1});
}

ShardInfo write_shard(const std::filesystem::path& path, const ShardContent& content,
                      std::optional<std::int64_t> block_samples) {
  ShardHeader header{.block_samples = block_samples.value_or(default_block_samples(content.spec)),
                     .spec = without_classes(content.spec),
                     .num_samples = static_cast<std::uint64_t>(content.size()),
                     .fields = std::vector<FieldExtents>(content.spec.fields.size()),
                     .has_images = are_images(content.spec)};
  check_lengths(content, header);
  const Derived derived = derive(content, header);
  if (has_block_table(header.spec, header.block_samples)) header.block_begins.bytes = derived.block_begins.size() * 8;
  const auto parts = contents_of(content, header, derived);
  header.uuid = uuid_of(content, header, derived);

  TemporaryFile temporary(path);
  lay_out(temporary.path(), content, parts, header);
  File file(temporary.path(), File::Mode::kUpdate);
  header.file_bytes = file.size();
  const auto parts_in_file = parts_of(header);
  for (std::size_t i = 0; i < parts.size(); ++i) file.write_at(parts_in_file[i].extent->address, parts[i].bytes);
  const UserBlock block = encode_header(header);
  file.write_at(0, block);
  temporary.publish();
  return {path.filename().string(), static_cast<std::int64_t>(header.num_samples),
          static_cast<std::int64_t>(header.file_bytes), header.uuid, header_crc(block)};
}

}  // namespace mn::data

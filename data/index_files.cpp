#include "data/index_files.hpp"

#include <algorithm>
#include <iterator>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/text.hpp>
#include <mn/data/chunk_filters.hpp>
#include <mn/data/hdf5.hpp>
#include <mn/data/hdf5_reader.hpp>

#include "data/chunk_walk.hpp"
#include "data/index_problems.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;

struct Source {
  ChunkedFile* file;
  hid_t id;
  std::string name;  // "FILE: /path", for messages
  std::vector<hsize_t> dims;
};

struct ElementType {
  DType dtype;
  bool is_swapped;
};

ElementType element_type_of(const H5& type, const std::string& name) {
  for (std::size_t number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (dtype == DType::kBFloat16) continue;  // HDF5 has no such type
    for (const bool is_swapped : {false, true}) {
      const H5 candidate = h5_element_type(dtype);
      if (is_swapped) {
        if (dtype == DType::kBool) continue;
        h5_check(H5Tset_order(candidate.get(), H5T_ORDER_BE), name);
      }
      if (H5Tequal(type.get(), candidate.get()) > 0) return {dtype, is_swapped && size_of(dtype) > 1};
    }
  }
  throw DataError(
      name + " holds " + type_text(type.get()) +
      "; integers of 8 to 64 bits, float16, float32, float64 and h5py's bool are taken: write it again as one of them");
}

std::vector<hsize_t> dims_of(hid_t dataset, const std::string& name) {
  const H5 space(H5Dget_space(dataset), name);
  const int count = H5Sget_simple_extent_ndims(space.get());
  if (count < 1) throw DataError(name + " has no dimension that counts samples");
  std::vector<hsize_t> dims(count);
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  return dims;
}

std::vector<std::int32_t> filters_of(hid_t creation, const std::string& name) {
  std::vector<std::int32_t> filters;
  const int count = H5Pget_nfilters(creation);
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    char own_name[256] = {};
    const H5Z_filter_t filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr,
                                               sizeof own_name, own_name, nullptr);
    if (filter_name(filter).empty()) {
      throw DataError(name + " is packed by filter " + std::to_string(filter) +
                      (own_name[0] == '\0' ? "" : " (" + std::string(own_name) + ")") +
                      ", which mn does not read: repack it with gzip, e.g. `h5repack -f SHUF -f GZIP=4 OLD NEW`");
    }
    filters.push_back(filter);
  }
  return filters;
}

/// Moves `corner` to the next chunk in row-major order. Returns false after the last chunk.
bool next_corner(const Source& source, const Hdf5Array& array, std::vector<hsize_t>& corner) {
  for (std::size_t d = corner.size(); d-- > 0;) {
    corner[d] += static_cast<hsize_t>(array.chunk[d]);
    if (corner[d] < source.dims[d]) return true;
    corner[d] = 0;
  }
  return false;
}

void add_chunks(const Source& source, hid_t creation, Hdf5Array& array) {
  unsigned options = 0;
  h5_check(H5Pget_chunk_opts(creation, &options), source.name);
  const bool whole_only = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
  hsize_t stored = 0;
  const H5 space(H5Dget_space(source.id), source.name);
  h5_check(H5Dget_num_chunks(source.id, space.get(), &stored), source.name);
  if (std::ranges::find(source.dims, hsize_t{0}) != source.dims.end()) return;
  std::vector<hsize_t> corner(source.dims.size(), 0);
  hsize_t found = 0;
  do {
    StoredChunk chunk = source.file->chunk_at(source.id, corner);
    if (chunk.address != kNotStored) ++found;
    bool is_partial = false;
    for (std::size_t d = 0; d < corner.size(); ++d) is_partial |= corner[d] + array.chunk[d] > source.dims[d];
    if (whole_only && is_partial) chunk.skipped = ~std::uint32_t{0};
    array.chunks.add(chunk);
  } while (next_corner(source, array, corner));
  if (found != stored) {
    throw DataError(source.name + " has " + std::to_string(stored) + " chunks, but HDF5 finds only " +
                    std::to_string(found) + ": is the file damaged?");
  }
}

void add_layout(const Source& source, const fs::path& file, hid_t creation, Hdf5Array& array) {
  const H5D_layout_t layout = H5Pget_layout(creation);
  if (layout == H5D_VIRTUAL) throw DataError(source.name + " " + virtual_text(creation, file));
  if (layout == H5D_CHUNKED) {
    std::vector<hsize_t> chunk(source.dims.size());
    h5_check(H5Pget_chunk(creation, static_cast<int>(chunk.size()), chunk.data()), source.name);
    array.chunk.assign(chunk.begin(), chunk.end());
    array.filters = filters_of(creation, source.name);
    add_chunks(source, creation, array);
    return;
  }
  if (layout != H5D_CONTIGUOUS || H5Pget_external_count(creation) > 0) {
    throw DataError(source.name + " is stored as " + (layout == H5D_COMPACT ? "a compact dataset" : "external files") +
                    ": repack it with `h5repack -l CONTI OLD NEW`");
  }
  // Without storage, HDF5 1.10 returns the user block's size as the dataset's address.
  if (H5Dget_storage_size(source.id) > 0) array.address = H5Dget_offset(source.id);
}

std::vector<std::uint8_t> fill_value(hid_t creation, const H5& type, const std::string& name) {
  std::vector<std::uint8_t> fill(H5Tget_size(type.get()), 0);
  H5D_fill_value_t status = H5D_FILL_VALUE_UNDEFINED;
  h5_check(H5Pfill_value_defined(creation, &status), name);
  if (status != H5D_FILL_VALUE_UNDEFINED) h5_check(H5Pget_fill_value(creation, type.get(), fill.data()), name);
  return fill;
}

H5 open_array(ChunkedFile& file, const IndexField& wanted, const std::string& name) {
  try {
    return h5_open_dataset(file.get(), wanted.path.c_str(), name + " can't be opened as a dataset");
  } catch (const DataError& error) {
    const std::string why = why_not_opened(file.get(), wanted.path);
    throw DataError(why.empty() ? error.what() + remedy_of(error.what()) : name + " " + why);
  }
}

/// Indexes a dataset of a file. The first file sets `field`; later files must match it.
Hdf5Array index_array(ChunkedFile& file, const fs::path& path, const IndexField& wanted, bool is_first,
                      FieldSpec& field, std::int64_t& samples) {
  const std::string name = path.string() + ": " + wanted.path;
  const H5 dataset = open_array(file, wanted, name);
  const H5 creation(H5Dget_create_plist(dataset.get()), name);
  const H5 type(H5Dget_type(dataset.get()), name);
  const Source source{&file, dataset.get(), name, dims_of(dataset.get(), name)};
  const ElementType element = element_type_of(type, name);
  const FieldSpec own{
      .name = wanted.name, .dtype = element.dtype, .shape = {source.dims.begin() + 1, source.dims.end()}};
  if (is_first) field = own;
  if (own != field) throw DataError(name + " has samples of another type or shape than in the first file");
  const auto count = static_cast<std::int64_t>(source.dims[0]);
  if (samples >= 0 && count != samples) {
    throw DataError(name + " has " + std::to_string(count) + " samples, but the fields before have " +
                    std::to_string(samples));
  }
  samples = count;
  Hdf5Array array;
  array.is_swapped = element.is_swapped;
  array.fill = fill_value(creation.get(), type, name);
  add_layout(source, path, creation.get(), array);
  return array;
}

Hdf5File index_file(const fs::path& path, const std::vector<IndexField>& wanted, bool is_first, SampleSpec& spec) {
  const auto [modified_ns, bytes] = modified_and_bytes(path);
  Hdf5File indexed{.path = {}, .num_samples = -1, .bytes = bytes, .modified_ns = modified_ns};
  const H5Lock lock;
  ChunkedFile file(path);
  spec.fields.resize(wanted.size());
  for (std::size_t f = 0; f < wanted.size(); ++f) {
    indexed.arrays.push_back(index_array(file, path, wanted[f], is_first, spec.fields[f], indexed.num_samples));
  }
  return indexed;
}

/// The path of a file in the manifest: relative to `folder` if possible, so that file and folder can be moved together.
std::string stored_path(const fs::path& file, const fs::path& folder) {
  std::error_code error;
  const fs::path relative = fs::relative(file, folder, error);
  return error || relative.empty() ? fs::absolute(file).string() : relative.string();
}

/// A hash of the file's first and last sample, whatever the chunks and filters.
std::uint64_t digest_of(const Hdf5Table& table, std::size_t file) {
  const auto reader = table.open_alone(file);
  const std::int64_t last = table.files()[file].num_samples - 1;
  std::uint64_t digest = 0;
  for (std::size_t f = 0; last >= 0 && f < table.spec().fields.size(); ++f) {
    for (const std::int64_t sample : {std::int64_t{0}, last}) digest = hash64(reader->read_sample(f, sample), digest);
  }
  return digest;
}

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::ptrdiff_t at = std::ssize(text) - 3; at > 0; at -= 3) text.insert(at, ",");
  return text;
}

constexpr const char* kNeverWritten = " never written: fill values are read";

std::string advice(const FieldSpec& field, const Hdf5Array& array, std::int64_t samples, std::int64_t parts) {
  constexpr std::int64_t kGoodBytes = 1 << 20;
  constexpr std::int64_t kMuchBytes = 16 << 20;
  constexpr std::int64_t kFewBytes = 16 << 10;
  const std::int64_t in_block = std::min(array.chunk[0], samples);
  const std::int64_t block_bytes = in_block * field.sample_bytes();
  const std::int64_t better = std::clamp<std::int64_t>(kGoodBytes / std::max<std::int64_t>(field.sample_bytes(), 1), 1,
                                                       std::max<std::int64_t>(samples, 1));
  std::string why;
  if (parts > 1 && field.sample_bytes() <= kMuchBytes) why = "chunks split each sample";
  if (block_bytes > kMuchBytes && in_block > 1) why = "a chunk is much to hold in memory for a few samples";
  if (block_bytes < kFewBytes && samples > in_block) why = "chunks are small, each costs a read";
  if (why.empty()) return {};
  std::string shape = std::to_string(better);
  for (const std::int64_t extent : field.shape) shape += "x" + std::to_string(extent);
  return "; " + why + ": chunks of " + shape + " would be better (`h5repack -l CHUNK=" + shape + " OLD NEW`)";
}

}  // namespace

IndexField parse_index_field(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw UsageError("--field \"" + text + "\" is not of the form NAME=/PATH/IN/FILE");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

Hdf5Table index_files(const std::vector<fs::path>& files, const std::vector<IndexField>& fields, const fs::path& folder,
                      const std::string& split) {
  SampleSpec spec;
  std::vector<Hdf5File> indexed;
  for (const fs::path& path : files) {
    indexed.push_back(index_file(path, fields, indexed.empty(), spec));
    indexed.back().path = stored_path(path, folder);
  }
  const Hdf5Table table(fs::absolute(folder).string(), split, spec, indexed);
  for (std::size_t file = 0; file < indexed.size(); ++file) indexed[file].digest = digest_of(table, file);
  return {table.folder(), split, std::move(spec), std::move(indexed)};
}

std::string cost_of(const Hdf5Table& table, std::size_t field) {
  const FieldSpec& spec = table.spec()[field];
  const auto by_block = [&](const Hdf5File& a, const Hdf5File& b) {
    return a.arrays[field].block_samples(spec) < b.arrays[field].block_samples(spec);
  };
  // The file with the longest blocks: reading a sample costs most in it.
  const Hdf5File& file = *std::ranges::max_element(table.files(), by_block);
  const Hdf5Array& array = file.arrays[field];
  std::string text = spec.name + ": " + bytes_text(spec.sample_bytes()) + " a sample, ";
  if (spec.num_classes > 0) text += with_commas(spec.num_classes) + " classes, ";
  if (array.chunk.empty()) {
    return text + "contiguous: " + (array.address == kNotStored ? kNeverWritten + 1 : "read where they lie");
  }
  std::string filters;
  for (const std::int32_t filter : array.filters) filters += ", " + filter_name(filter);
  const std::int64_t in_block = std::min(array.chunk[0], file.num_samples);
  std::int64_t parts = 1;
  for (const std::int64_t count : array.grid(spec)) parts *= count;
  std::int64_t stored = 0, absent = 0;
  array.chunks.for_each([&](const StoredChunk& chunk) {
    stored += chunk.bytes;
    absent += chunk.address == kNotStored ? 1 : 0;
  });
  const std::string lack = absent == 0 ? ""
                                       : "; " + with_commas(absent) + " of " + with_commas(array.chunks.size()) +
                                             " chunks were" + kNeverWritten;
  const std::int64_t blocks = std::max<std::int64_t>(array.chunks.size() / std::max<std::int64_t>(parts, 1), 1);
  return text + with_commas(array.chunk[0]) + (array.chunk[0] == 1 ? " sample a chunk" : " samples a chunk") + filters +
         ": " + bytes_text(in_block * spec.sample_bytes()) + " in memory, " + bytes_text(stored / blocks) + " in " +
         (parts == 1 ? "a read" : with_commas(parts) + " reads") + lack + advice(spec, array, file.num_samples, parts);
}

}  // namespace mn::data

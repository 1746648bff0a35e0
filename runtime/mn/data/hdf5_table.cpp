// The table of indexed HDF5 files in memory, and as a message between ranks: magic bytes, then CBOR.
//
// (1) In a parsed table all addresses lie inside the files as they were when they were indexed, the chunks cover
//     exactly the samples, and mn can undo all filters. So readers need no further checks.
// (2) hash() is the dataset's fingerprint in checkpoints, so the keys and the encoding of the hashed document must not
//     change.
#include <mn/data/hdf5_table.hpp>

#include <algorithm>

#include <sys/stat.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/chunk_filters.hpp>

namespace mn::data {
namespace {

using nlohmann::json;

constexpr std::string_view kIndexMagic = "MNINDEX2";
constexpr const char* kIndexName = "an index of HDF5 files";
constexpr std::int64_t kMaxHdf5Samples = std::int64_t{1} << 40;
constexpr std::int64_t kMaxChunkBytes = std::int64_t{1} << 32;

json to_json(const Hdf5Array& array) {
  return {{"swapped", array.is_swapped},      {"address", array.address}, {"chunk", array.chunk},
          {"filters", array.filters},         {"fill", array.fill},       {"chunks", json::binary(array.chunks.code())},
          {"num_chunks", array.chunks.size()}};
}

Hdf5Array array_from(json& document) {
  return {.is_swapped = document.at("swapped"),
          .address = whole_number<std::uint64_t>(document.at("address")),
          .chunk = whole_numbers<std::int64_t>(document.at("chunk")),
          .filters = whole_numbers<std::int32_t>(document.at("filters")),
          .fill = whole_numbers<std::uint8_t>(document.at("fill")),
          .chunks = ChunkList(whole_number<std::int64_t>(document.at("num_chunks")),
                              std::move(document.at("chunks").get_binary()))};
}

bool is_inside(std::uint64_t address, std::uint64_t bytes, const Hdf5File& file) {
  const auto length = static_cast<std::uint64_t>(file.bytes);
  return address <= length && bytes <= length - address;
}

/// Why the chunks of `array` can't cover the file's samples; empty if they can.
std::string chunk_problem(const Hdf5Array& array, const FieldSpec& field, const Hdf5File& file) {
  if (array.chunk.size() != field.shape.size() + 1) return "chunks of other dimensions";
  std::int64_t bytes = static_cast<std::int64_t>(size_of(field.dtype));
  for (const std::int64_t extent : array.chunk) {
    if (extent < 1 || extent > kMaxChunkBytes / bytes) return "chunks of impossible size";
    bytes *= extent;
  }
  // No product of these extents overflows: a chunk has at least one element, and the bytes of a sample are limited.
  std::int64_t count = (file.num_samples + array.chunk[0] - 1) / array.chunk[0];
  for (const std::int64_t extent : array.grid(field)) {
    if (__builtin_mul_overflow(count, extent, &count)) return "too many chunks";
  }
  if (count != array.chunks.size()) return std::to_string(array.chunks.size()) + " chunks";
  for (const std::int32_t filter : array.filters) {
    if (filter_name(filter).empty()) return "filter " + std::to_string(filter) + ", which can't be undone";
  }
  if (array.filters.size() > 32) return "too many filters";
  bool are_inside = true;
  array.chunks.for_each([&](const StoredChunk& chunk) {
    are_inside = are_inside && (chunk.address == kNotStored || is_inside(chunk.address, chunk.bytes, file));
  });
  return are_inside ? "" : "a chunk out of the file";
}

std::string array_problem(const Hdf5Array& array, const FieldSpec& field, const Hdf5File& file) {
  if (field.kind != FieldKind::kFixed) return "samples of varying length";
  if (array.fill.size() != size_of(field.dtype)) return "a fill value of another type";
  if (!array.chunk.empty()) return chunk_problem(array, field, file);
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(file.num_samples, field.sample_bytes(), &bytes)) return "too many samples";
  if (array.address == kNotStored || is_inside(array.address, static_cast<std::uint64_t>(bytes), file)) return {};
  return "samples out of the file: is it truncated?";
}

std::string file_problem(const Hdf5File& file, const SampleSpec& spec) {
  if (file.num_samples < 0 || file.num_samples > kMaxHdf5Samples || file.bytes < 0) return "impossible numbers";
  if (file.arrays.size() != spec.fields.size()) return std::to_string(file.arrays.size()) + " fields";
  for (std::size_t f = 0; f < spec.fields.size(); ++f) {
    const std::string problem = array_problem(file.arrays[f], spec.fields[f], file);
    if (!problem.empty()) return "field " + spec.fields[f].name + " has " + problem;
  }
  return {};
}

}  // namespace

Hdf5Table::Hdf5Table(std::string folder, std::string split, SampleSpec samples, std::vector<Hdf5File> files)
    : StoredTable(std::move(folder), std::move(split), std::move(samples)), files_(std::move(files)) {
  if (const std::string problem = problem_of(spec()); !problem.empty()) throw DataError("the samples: " + problem);
  for (const Hdf5File& file : files_) {
    const std::string problem = file_problem(file, spec());
    if (!problem.empty()) throw DataError(file.path + ": " + problem);
    add_file(file.num_samples);
    if (num_samples() > kMaxHdf5Samples) throw DataError("too many samples");
  }
}

std::filesystem::path Hdf5Table::path(std::size_t file) const {
  return (std::filesystem::path(folder()) / files_[file].path).lexically_normal();
}

StorageLayout Hdf5Table::layout() const {
  std::int64_t live_bytes = 0;
  // Fields with less than a sixteenth of a sample's bytes do not count for `block`: their blocks take little memory.
  std::int64_t block = 1;
  bool is_packed = false;
  for (std::size_t f = 0; f < spec().fields.size(); ++f) {
    std::int64_t longest = 1;
    bool has_chunks = false;
    for (const Hdf5File& file : files_) {
      // A chunk may have room for more samples than the file has.
      const std::int64_t own = file.arrays[f].block_samples(spec().fields[f]);
      longest = std::max(longest, std::min(own, std::max<std::int64_t>(file.num_samples, 1)));
      has_chunks = has_chunks || !file.arrays[f].chunk.empty();
    }
    live_bytes += longest * spec().fields[f].sample_bytes();
    if (spec().fields[f].sample_bytes() < spec().sample_bytes() / 16) continue;
    block = std::max(block, longest);
    is_packed = is_packed || has_chunks;
  }
  return {.bytes = num_samples() * spec().sample_bytes(),
          .files = static_cast<std::int64_t>(files_.size()),
          .block_samples = block,
          .is_packed = is_packed,
          .live_bytes = live_bytes};
}

std::uint64_t Hdf5Table::hash() const {
  json files = json::array();
  for (const Hdf5File& file : files_) {
    files.push_back({std::filesystem::path(file.path).filename().string(), file.num_samples, file.digest});
  }
  const json content = {{"split", split()}, {"spec", mn::to_json(spec())}, {"files", std::move(files)}};
  const auto bytes = json::to_cbor(content);
  return hash64(std::as_bytes(std::span(bytes)));
}

std::string Hdf5Table::serialize() const {
  json files = json::array();
  for (const Hdf5File& file : files_) {
    json arrays = json::array();
    for (const Hdf5Array& array : file.arrays) arrays.push_back(data::to_json(array));
    files.push_back({{"path", file.path},
                     {"num_samples", file.num_samples},
                     {"bytes", file.bytes},
                     {"modified_ns", file.modified_ns},
                     {"digest", file.digest},
                     {"arrays", std::move(arrays)}});
  }
  const json document = {
      {"folder", folder()}, {"split", split()}, {"spec", mn::to_json(spec())}, {"files", std::move(files)}};
  std::string bytes(kIndexMagic);
  json::to_cbor(document, bytes);
  return bytes;
}

bool Hdf5Table::is_table(std::string_view bytes) { return bytes.starts_with(kIndexMagic); }

Hdf5Table Hdf5Table::parse(std::string_view bytes, const std::string& folder) {
  if (!is_table(bytes)) throw DataError(std::string("this is not ") + kIndexName);
  json document = parse_cbor(bytes.substr(kIndexMagic.size()), kIndexName);
  return read_json(kIndexName, [&]() -> Hdf5Table {
    std::vector<Hdf5File> files;
    for (json& each : document.at("files")) {
      Hdf5File& file = files.emplace_back();
      file.path = each.at("path");
      file.num_samples = whole_number<std::int64_t>(each.at("num_samples"));
      file.bytes = whole_number<std::int64_t>(each.at("bytes"));
      file.modified_ns = whole_number<std::int64_t>(each.at("modified_ns"));
      file.digest = whole_number<std::uint64_t>(each.at("digest"));
      for (json& array : each.at("arrays")) file.arrays.push_back(array_from(array));
    }
    return {folder.empty() ? document.at("folder").get<std::string>() : folder, document.at("split"),
            sample_spec_from_json(document.at("spec"), kIndexName), std::move(files)};
  });
}

std::pair<std::int64_t, std::int64_t> modified_and_bytes(const std::filesystem::path& path) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) throw FileError(with_errno("cannot read " + path.string(), errno), errno);
  return {std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec, facts.st_size};
}

void Hdf5Table::check_unchanged(std::size_t file) const {
  const Hdf5File& expected = files_[file];
  const auto [modified_ns, bytes] = modified_and_bytes(path(file));
  const std::string remedy = ": index it again with mnshard index";
  if (bytes != expected.bytes) {
    throw DataError(path(file).string() + " was changed after it was indexed (it has " + std::to_string(bytes) +
                    " bytes, then " + std::to_string(expected.bytes) + ")" + remedy);
  }
  if (modified_ns != expected.modified_ns) {
    throw DataError(path(file).string() + " was written again after it was indexed" + remedy);
  }
}

void Hdf5Table::check_all() const {
  for (std::size_t file = 0; file < files_.size(); ++file) check_unchanged(file);
}

std::shared_ptr<const StoredFile> Hdf5Table::open(std::size_t file, File bytes,
                                                  std::shared_ptr<IoCounters> counters) const {
  return std::make_shared<const Hdf5Reader>(spec(), files_[file], std::move(bytes), std::move(counters));
}

}  // namespace mn::data

// Opens shards and reads their samples.
//
// (1) A header is used only after decode_header() has accepted it. A shard that a manifest lists must also have the CRC
//     and uuid recorded there.
// (2) The constructor reads small fields, blocks' checksums and offsets, and compares each part with its CRC.
// (3) Callers that read a block compare its bytes with the block's CRC (is_good()).
// (4) Offsets begin with 0, never fall, and end with the length of the values. block_begins rises from 0 to the number
//     of samples. So reads stay inside the values.
//
// Cost: opening reads 4 KiB, the small fields (a label has 8 bytes), 8 bytes for each sample of each field of varying
// length, and 4 bytes for each block of each field that is not small. Then a single pread reads a run of blocks.
#include <mn/data/shard_reader.hpp>

#include <cstring>
#include <functional>

#include <mn/core/error.hpp>
#include <mn/core/file_kind.hpp>

namespace mn::data {
namespace {

OpenShard open_and_decode(File file) {
  const std::filesystem::path path = file.path();
  // Samples are read at many places in turn, so the system would drop bytes that it has read ahead before their use.
  file.read_nothing_ahead();
  const std::uint64_t bytes = file.size();
  if (bytes < kUserBlockBytes) {
    const std::string kind = but_kind_of_file(begin_of_file(file));
    throw DataError(path.string() + (kind.empty()
                                         ? " is truncated or not a shard: it has " + std::to_string(bytes) + " bytes"
                                         : " is not a shard" + kind));
  }
  UserBlock block;
  file.read_at(0, block);
  ShardHeader header = decode_header(block, path.string());
  if (bytes < header.file_bytes) {
    throw DataError(path.string() + " is truncated: it has " + std::to_string(bytes) + " of " +
                    std::to_string(header.file_bytes) + " bytes; copy it again or recreate it with mnshard");
  }
  return {std::move(file), std::move(header), header_crc(block)};
}

}  // namespace

OpenShard open_shard(const std::filesystem::path& path) { return open_and_decode(File(path, File::Mode::kRead)); }

OpenShard open_shard(File bytes, const ShardInfo& expected) {
  OpenShard opened = open_and_decode(std::move(bytes));
  if (opened.header_crc == expected.header_crc && opened.header.uuid == expected.uuid) return opened;
  throw DataError(opened.file.path().string() + " was changed after the manifest was written (uuid " +
                  to_string(opened.header.uuid) + ", expected " + to_string(expected.uuid) +
                  "): copy the shard and its manifest from the same folder, or make them again with mnshard");
}

ShardInfo describe_shard(const std::filesystem::path& path) {
  const OpenShard opened = open_shard(path);
  return {path.filename().string(), static_cast<std::int64_t>(opened.header.num_samples),
          static_cast<std::int64_t>(opened.header.file_bytes), opened.header.uuid, opened.header_crc};
}

ShardReader::ShardReader(OpenShard shard, std::shared_ptr<IoCounters> counters)
    : file_(std::move(shard.file)), header_(std::move(shard.header)), counters_(std::move(counters)) {
  counters_->opens += 1;
  counters_->bytes += kUserBlockBytes;
  block_begins_ = read_block_begins();
  for (std::size_t f = 0; f < header_.fields.size(); ++f) fields_.push_back(read_field(f));
}

std::vector<std::uint64_t> ShardReader::read_block_begins() const {
  if (header_.block_begins.bytes == 0) return {};
  auto begins = read_array<std::uint64_t>(header_.block_begins, "block_begins");
  const bool rise = std::ranges::adjacent_find(begins, std::greater_equal<>()) == begins.end();
  if (begins.front() == 0 && begins.back() == header_.num_samples && rise) return begins;
  throw DataError(path() + ": block_begins and the samples mismatch; make the shard again with mnshard");
}

ShardReader::Field ShardReader::read_field(std::size_t field) const {
  const FieldSpec& spec = header_.spec.fields[field];
  const FieldExtents& extents = header_.fields[field];
  Field result;
  result.is_small = header_.is_small(field);
  result.sample_bytes = spec.sample_bytes();
  if (result.is_small) {
    result.values = read_array<std::byte>(extents.values, "field " + spec.name);
  } else {
    result.crcs = read_array<std::uint32_t>(extents.checksums, "checksums of field " + spec.name);
  }
  if (spec.kind == FieldKind::kFixed) return result;
  result.begins = read_array<std::uint64_t>(extents.offsets, "offsets of field " + spec.name);
  const auto row = static_cast<std::uint64_t>(spec.row_bytes());
  const bool good = result.begins.front() == 0 && result.begins.back() == extents.values.bytes / row &&
                    std::is_sorted(result.begins.begin(), result.begins.end());
  if (!good) {
    throw DataError(path() + ": the offsets of " + spec.name +
                    " and its values mismatch; make the shard again with mnshard");
  }
  for (std::uint64_t& begin : result.begins) begin *= row;
  return result;
}

void ShardReader::read_bytes(std::uint64_t offset, std::span<std::byte> out) const {
  file_.read_at(offset, out);
  counters_->bytes += static_cast<std::int64_t>(out.size());
}

template <class T>
std::vector<T> ShardReader::read_array(const Extent& extent, const std::string& name) const {
  std::vector<T> values(extent.bytes / sizeof(T));
  const auto bytes = std::as_writable_bytes(std::span(values));
  read_bytes(extent.address, bytes);
  if (crc32c(bytes) != extent.crc) {
    throw DataError(path() + ": damaged " + name +
                    " (a checksum differs): copy the shard again or recreate it with mnshard");
  }
  return values;
}

void ShardReader::copy_small(std::size_t field, std::int64_t sample, std::byte* out) const {
  const Field& f = fields_[field];
  if (f.sample_bytes > 0) std::memcpy(out, f.values.data() + sample * f.sample_bytes, f.sample_bytes);
}

std::int64_t ShardReader::block_of(std::size_t, std::int64_t sample) const {
  if (block_begins_.empty()) return sample / header_.block_samples;
  return std::ranges::upper_bound(block_begins_, static_cast<std::uint64_t>(sample)) - block_begins_.begin() - 1;
}

void ShardReader::read_blocks(std::size_t field, std::int64_t first, std::int64_t count,
                              std::span<std::byte> out) const {
  const std::int64_t begin = begin_of(field, first_sample(field, first));
  const std::int64_t end = begin_of(field, first_sample(field, first + count));
  if (std::ssize(out) != end - begin) throw ArgumentError("blocks of a shard need room of their length");
  if (is_small(field)) {
    std::copy_n(fields_[field].values.begin() + begin, out.size(), out.begin());
    return;
  }
  read_bytes(header_.fields[field].values.address + static_cast<std::uint64_t>(begin), out);
}

void ShardReader::will_read(std::size_t field, std::int64_t first, std::int64_t count) const noexcept {
  const auto blocks = static_cast<std::int64_t>(header_.num_blocks());
  const std::int64_t begin = begin_of(field, first_sample(field, std::min(first, blocks)));
  const std::int64_t end = begin_of(field, first_sample(field, std::min(first + count, blocks)));
  if (begin == end) return;
  file_.will_read(header_.fields[field].values.address + static_cast<std::uint64_t>(begin),
                  static_cast<std::uint64_t>(end - begin));
}

std::int64_t ShardReader::index_bytes() const noexcept {
  const auto bytes = [](const auto& values) { return values.size() * sizeof(values[0]); };
  std::size_t total = bytes(block_begins_);
  for (const Field& field : fields_) total += bytes(field.values) + bytes(field.begins) + bytes(field.crcs);
  return static_cast<std::int64_t>(total);
}

std::vector<std::string> ShardReader::read_keys() const {
  if (!header_.has_images) return {};
  const auto bytes = read_array<char>(header_.images.key_bytes, "/data/key_bytes");
  const auto offsets = read_array<std::uint64_t>(header_.images.key_offsets, "/data/key_offsets");
  if (!std::is_sorted(offsets.begin(), offsets.end()) || offsets.back() != bytes.size()) {
    throw DataError(path() + ": /data/key_offsets and /data/key_bytes mismatch; make the shard again with mnshard");
  }
  std::vector<std::string> keys;
  for (std::int64_t i = 0; i < size(); ++i) keys.emplace_back(bytes.data() + offsets[i], offsets[i + 1] - offsets[i]);
  return keys;
}

void ShardReader::check_rest() const {
  if (!header_.has_images) return;
  (void)read_keys();
  (void)read_array<std::byte>(header_.images.hwc, "/data/hwc");
}

std::string ShardReader::source_of(std::int64_t sample) const {
  try {
    return header_.has_images ? read_keys()[static_cast<std::size_t>(sample)] : "";
  } catch (const DataError&) {
    return {};
  }
}

std::string ShardReader::damage(std::size_t field, std::int64_t block) const {
  const std::int64_t first = first_sample(field, block);
  const std::int64_t last = first_sample(field, block + 1) - 1;
  std::string samples = "samples " + std::to_string(first) + " to " + std::to_string(last) + " are";
  if (first == last) {
    const std::string source = source_of(first);
    samples = "sample " + std::to_string(first) + (source.empty() ? "" : " from " + source) + " is";
  }
  return path() + ": " + samples + " damaged (the checksum of " + header_.spec.fields[field].name +
         " differs): copy the shard again or recreate it";
}

}  // namespace mn::data

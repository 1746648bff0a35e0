// Reads a shard by pread at the addresses that its user block names; libhdf5 and its global lock are not involved.
//
// (1) A header is used only if it passes decode_header; one that a manifest names must also have its CRC and uuid.
// (2) Labels, checksums and offsets are read once, when the reader is made, and checked against their own CRC.
// (3) Whoever reads a block compares its bytes with its CRC.
// (4) offsets_ begins with 0, rises, and ends with the length of /data/bytes: reads stay inside the section.
//
// Cost: opening reads 4 KiB and, for each sample, 4 bytes (fixed) or 16 (encoded), and 4 a block; then one pread for
// each run of blocks.
#include <algorithm>
#include <cstring>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/data/shard_reader.hpp>

namespace mn::data {
namespace {

struct Opened {
  OpenShard shard;
  std::uint32_t crc;
};

Opened open_and_decode(const std::filesystem::path& path) {
  File file(path, File::Mode::kRead);
  const std::uint64_t bytes = file.size();
  if (bytes < kUserBlockBytes)
    throw DataError(path.string() + " is truncated or not a shard: it has " + std::to_string(bytes) + " bytes");
  UserBlock block;
  file.read_at(0, block);
  ShardHeader header = decode_header(block, path.string());
  if (bytes < header.file_bytes) {
    throw DataError(path.string() + " is truncated: it has " + std::to_string(bytes) + " of " +
                    std::to_string(header.file_bytes) + " bytes; copy it again or make it anew with mnshard");
  }
  return {{std::move(file), std::move(header)}, header_crc(block)};
}

}  // namespace

OpenShard open_shard(const std::filesystem::path& path) { return open_and_decode(path).shard; }

OpenShard open_shard(const ShardTable& table, std::size_t shard) {
  const ShardInfo& expected = table.shards()[shard];
  Opened opened = open_and_decode(table.path(shard));
  if (opened.crc != expected.header_crc || opened.shard.header.uuid != expected.uuid) {
    throw DataError(table.path(shard).string() + " was changed after the manifest was written (uuid " +
                    to_string(opened.shard.header.uuid) + ", expected " + to_string(expected.uuid) +
                    "): copy the shard and its manifest from the same folder, or make them again with mnshard");
  }
  return std::move(opened.shard);
}

ShardInfo describe_shard(const std::filesystem::path& path) {
  const Opened opened = open_and_decode(path);
  const ShardHeader& header = opened.shard.header;
  return {path.filename().string(), static_cast<std::int64_t>(header.num_samples),
          static_cast<std::int64_t>(header.file_bytes), header.uuid, opened.crc};
}

ShardReader::ShardReader(OpenShard shard, std::shared_ptr<IoCounters> counters)
    : file_(std::move(shard.file)),
      header_(std::move(shard.header)),
      sample_bytes_(header_.sample_bytes()),
      counters_(std::move(counters)) {
  counters_->opens += 1;
  counters_->bytes += kUserBlockBytes;
  labels_ = read_array<std::int32_t>(Section::kLabel);
  crcs_ = read_array<std::uint32_t>(Section::kCrc);
  if (header_.kind == SampleKind::kFixed) return;
  offsets_ = read_array<std::uint64_t>(Section::kOffsets);
  const bool good = offsets_.front() == 0 && offsets_.back() == header_.at(Section::kBytes).bytes &&
                    std::is_sorted(offsets_.begin(), offsets_.end());
  if (!good) throw DataError(path() + ": /data/offsets and /data/bytes mismatch; make the shard again with mnshard");
}

void ShardReader::read_bytes(std::uint64_t offset, std::span<std::byte> out) const {
  file_.read_at(offset, out);
  counters_->bytes += static_cast<std::int64_t>(out.size());
}

std::vector<std::byte> ShardReader::read_section(Section section) const { return read_array<std::byte>(section); }

template <class T>
std::vector<T> ShardReader::read_array(Section section) const {
  const Extent& extent = header_.at(section);
  std::vector<T> values(extent.bytes / sizeof(T));
  const auto bytes = std::as_writable_bytes(std::span(values));
  read_bytes(extent.address, bytes);
  if (section != Section::kBytes && crc32c(bytes) != extent.crc) {
    throw DataError(path() + ": " + name_of(section, header_.kind) +
                    " is damaged (its checksum differs): copy the shard again or make it anew with mnshard");
  }
  return values;
}

std::int64_t ShardReader::block_bytes(std::int64_t block) const {
  const std::int64_t first = block * block_samples();
  return static_cast<std::int64_t>(begin_of(std::min(first + block_samples(), size())) - begin_of(first));
}

void ShardReader::read_blocks(std::int64_t first, std::int64_t count, std::span<std::byte> out) const {
  const std::int64_t begin = first * block_samples();
  const std::int64_t end = std::min(begin + count * block_samples(), size());
  if (out.size() != begin_of(end) - begin_of(begin)) throw ArgumentError("blocks of a shard need room of their length");
  read_bytes(header_.at(Section::kBytes).address + begin_of(begin), out);
}

bool ShardReader::is_good(std::int64_t block, std::span<const std::byte> bytes) const {
  return crc32c(bytes) == crcs_[block];
}

std::shared_ptr<const ShardReader::Block> ShardReader::load_block(std::int64_t block) const {
  auto bytes = std::make_shared<Block>(block_bytes(block));
  read_blocks(block, 1, *bytes);
  return is_good(block, *bytes) ? bytes : nullptr;
}

std::int64_t ShardReader::index_bytes() const noexcept {
  const auto bytes = [](const auto& values) { return values.size() * sizeof(values[0]); };
  return static_cast<std::int64_t>(bytes(labels_) + bytes(offsets_) + bytes(crcs_));
}

std::vector<std::string> ShardReader::read_keys() const {
  if (header_.kind == SampleKind::kFixed) return {};
  const auto bytes = read_array<char>(Section::kKeyBytes);
  const auto offsets = read_array<std::uint64_t>(Section::kKeyOffsets);
  if (!std::is_sorted(offsets.begin(), offsets.end()) || offsets.back() != bytes.size()) {
    throw DataError(path() + ": /data/key_offsets and /data/key_bytes mismatch; make the shard again with mnshard");
  }
  std::vector<std::string> keys;
  for (std::int64_t i = 0; i < size(); ++i) keys.emplace_back(bytes.data() + offsets[i], offsets[i + 1] - offsets[i]);
  return keys;
}

std::string ShardReader::damage(std::int64_t sample) const {
  return path() + ": sample " + std::to_string(sample) +
         " is damaged (its checksum differs): `mnshard verify` lists all such samples; copy the shard again or make it "
         "anew";
}

}  // namespace mn::data

/// The first 4 KiB of a shard: HDF5's user block, which says where everything lies, so that one pread opens the shard.
///
/// A shard is an HDF5 file whose datasets are contiguous and unfiltered; any HDF5 ≥ 1.8 reads it. Schema (N samples;
/// all numbers little endian):
///   fixed:   /data/x dtype[N, shape…], /data/label i32[N], /data/crc32c u32[⌈N/B⌉] over each block of B samples of x
///   encoded: /data/bytes u8[T], /data/offsets u64[N+1], /data/label i32[N], /data/crc32c u32[N] over each sample,
///            /data/hwc u16[N, 3], /data/key_bytes u8[K], /data/key_offsets u64[N+1] (where each sample came from)
/// Version 1 has B = 64, version 2 names B. Shards of encoded samples are of version 1, those of fixed ones of
/// version 2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mn/data/dataset.hpp>

namespace mn::data {

inline constexpr std::size_t kUserBlockBytes = 4096;
inline constexpr std::uint32_t kShardVersion = 2;  ///< the newest
inline constexpr std::int64_t kVersion1BlockSamples = 64;
inline constexpr std::uint64_t kSampleBytesLimit = std::uint64_t{1} << 30;

/// Whether shards hold samples of that dtype.
[[nodiscard]] bool can_store(DType dtype) noexcept;

/// Fixed samples of so many bytes that a new shard puts under one checksum, which are the least that can be read: as
/// few as make 64 KiB, so a block has 64 to 128 KiB or one larger sample. 1 for encoded samples.
[[nodiscard]] std::int64_t new_block_samples(const SampleSpec& spec) noexcept;

using Uuid = std::array<std::byte, 16>;
[[nodiscard]] std::string to_string(const Uuid& uuid);

/// The parts of a shard, in the order of the user block's table.
enum class Section : std::uint8_t { kBytes, kOffsets, kLabel, kCrc, kHwc, kKeyBytes, kKeyOffsets };
inline constexpr std::size_t kSections = 7;
/// "/data/label", …; kBytes is "/data/x" in a shard of fixed samples.
[[nodiscard]] const char* name_of(Section section, SampleKind kind) noexcept;

/// Where a section lies in the file; absent ones are all 0.
struct Extent {
  std::uint64_t address = 0;  ///< from the start of the file
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;  ///< CRC32C of the section; 0 and unused for kBytes, which kCrc covers
  bool operator==(const Extent&) const = default;
};

struct ShardHeader {
  SampleKind kind = SampleKind::kFixed;
  DType dtype = DType::kUInt8;
  std::vector<std::int64_t> shape;  ///< of one fixed sample, at most 8 dimensions
  std::int64_t block_samples = 1;   ///< samples under one checksum
  std::uint64_t num_samples = 0;
  std::uint64_t file_bytes = 0;
  Uuid uuid = {};
  std::array<Extent, kSections> sections = {};

  [[nodiscard]] const Extent& at(Section section) const { return sections[static_cast<std::size_t>(section)]; }
  /// What is written for this kind of samples.
  [[nodiscard]] std::uint32_t version() const noexcept { return kind == SampleKind::kEncoded ? 1 : kShardVersion; }
  [[nodiscard]] Extent& at(Section section) { return sections[static_cast<std::size_t>(section)]; }
  /// Entries of /data/crc32c.
  [[nodiscard]] std::uint64_t num_checksums() const noexcept;
  [[nodiscard]] std::int64_t sample_bytes() const noexcept;  ///< of a fixed sample
  bool operator==(const ShardHeader&) const = default;
};

using UserBlock = std::array<std::byte, kUserBlockBytes>;
[[nodiscard]] UserBlock encode_header(const ShardHeader& header);
/// CRC32C of an encoded header: what a manifest keeps of a shard.
[[nodiscard]] std::uint32_t header_crc(std::span<const std::byte, kUserBlockBytes> block);
/// Throws DataError that begins with `file` if the block is none of ours, damaged, or contradicts itself: every extent
/// lies inside file_bytes and has the length that kind, N and shape call for.
[[nodiscard]] ShardHeader decode_header(std::span<const std::byte, kUserBlockBytes> block, const std::string& file);

}  // namespace mn::data

/// The format of shards. The first 4 KiB, HDF5's user block, hold the positions of all HDF5 datasets of the shard, so
/// one pread opens a shard.
///
/// A shard is an HDF5 file whose datasets are contiguous and unfiltered; any HDF5 ≥ 1.8 reads it. All numbers are
/// little endian. A shard has N samples in blocks of B samples, and these HDF5 datasets for each field NAME:
///
///   /data/NAME          dtype[N, shape…] of a fixed field; the samples back to back, dtype[T, shape…], of a variable
///                       field; the bytes of all samples back to back, u8[T], of an encoded field
///   /data/NAME_offsets  u64[N+1]: number of the first of the T rows of each sample, then T; fixed fields have none
///   /data/NAME_crc32c   u32[⌈N/B⌉]: CRC32C of each block's bytes of NAME; small fields (is_small()) have none
///
/// If samples vary in length, blocks are cut by bytes (has_block_table()). There are K blocks, and /data/NAME_crc32c is
/// u32[K]. The dataset /block_begins, u64[K+1], has the number of the first sample of each block, then N.
///
/// If samples are encoded images with a class label, a block has one sample. Two more things are recorded: the sizes of
/// the images, /data/hwc u16[N, 3], and the names of their source files, /data/key_bytes u8[T] with /data/key_offsets
/// u64[N+1].
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
inline constexpr std::uint32_t kShardVersion = 4;      ///< version of the format that mn reads and writes
inline constexpr std::int64_t kBlockBytes = 64 << 10;  ///< least size of a block; the last block may be shorter
inline constexpr std::uint64_t kSampleBytesLimit = std::uint64_t{1} << 30;

/// The number of samples in a block of a new shard: 64 to 128 KiB, one larger sample, or one encoded image with a
/// label. `varying_bytes` is the average number of bytes of a sample's encoded and variable fields.
[[nodiscard]] std::int64_t default_block_samples(const SampleSpec& spec, std::int64_t varying_bytes = 0);

/// Whether labeled() makes this spec: a data field with its default name, and a class label.
[[nodiscard]] bool is_labeled(const SampleSpec& spec);
/// Whether samples are encoded images with a class. Then shards record sizes and sources of the images.
[[nodiscard]] bool are_images(const SampleSpec& spec);

/// Why shards can't hold samples of this spec; empty if they can.
[[nodiscard]] std::string storage_problem(const SampleSpec& spec);

/// Whether a field is fixed, with blocks so short that opening a shard reads the whole field into memory.
[[nodiscard]] bool is_small(const SampleSpec& spec, std::size_t field, std::int64_t block_samples) noexcept;

/// Whether a shard has a table of where blocks begin: samples vary in length, and a block may have several samples.
[[nodiscard]] bool has_block_table(const SampleSpec& spec, std::int64_t block_samples) noexcept;

/// Shards do not record numbers and names of classes.
[[nodiscard]] SampleSpec without_classes(SampleSpec spec);

using Uuid = std::array<std::byte, 16>;
[[nodiscard]] std::string to_string(const Uuid& uuid);

/// The position of a part of a shard (an HDF5 dataset), as stored in the user block. All 0: the shard lacks the part.
struct Extent {
  std::uint64_t address = 0;  ///< offset from the start of the file
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;       ///< CRC32C of the part; 0 and unused if each block has a checksum
  std::uint32_t reserved = 0;  ///< always 0
  bool operator==(const Extent&) const = default;
};

struct FieldExtents {
  Extent values = {};
  Extent offsets = {};
  Extent checksums = {};
  bool operator==(const FieldExtents&) const = default;
};

struct ImageExtents {
  Extent hwc = {};
  Extent key_bytes = {};
  Extent key_offsets = {};
  bool operator==(const ImageExtents&) const = default;
};

struct ShardHeader {
  /// The number of samples in a block; an average if blocks are cut by bytes. A block is the smallest unit that is
  /// read, and has one checksum for each field.
  std::int64_t block_samples = 1;
  SampleSpec spec = {};  ///< without numbers and names of classes
  std::uint64_t num_samples = 0;
  std::uint64_t file_bytes = 0;
  Uuid uuid = {};
  std::vector<FieldExtents> fields = {};
  Extent block_begins = {};  ///< the table of blocks, if the shard has one
  bool has_images = false;   ///< whether the shard has `images`
  ImageExtents images = {};

  [[nodiscard]] std::uint64_t num_blocks() const noexcept;
  [[nodiscard]] bool is_small(std::size_t field) const noexcept { return data::is_small(spec, field, block_samples); }
  bool operator==(const ShardHeader&) const = default;
};

/// A part of the file, its HDF5 name, and its required length.
struct NamedExtent {
  std::string name;
  Extent* extent;
  std::uint64_t bytes;         ///< the required length if `multiple_of` is 0
  std::uint64_t multiple_of;   ///< if not 0: the length may be any multiple of this number
  bool has_checksums = false;  ///< whether the blocks of the part have checksums
};
/// Lists the parts of the shard: for each field its values, checksums and offsets, then all further parts. Uses only
/// the header's spec, block_samples and num_samples.
[[nodiscard]] std::vector<NamedExtent> parts_of(ShardHeader& header);

/// The first 4 KiB of a shard. mn reads nothing else to open a shard.
using UserBlock = std::array<std::byte, kUserBlockBytes>;
/// Throws UsageError if the description of the fields does not fit into 4 KiB.
[[nodiscard]] UserBlock encode_header(const ShardHeader& header);
/// CRC32C of an encoded header, as recorded in a manifest.
[[nodiscard]] std::uint32_t header_crc(std::span<const std::byte, kUserBlockBytes> block);
/// Reads the header in a user block. If the block is not a shard's, is damaged, or is inconsistent, throws a DataError
/// whose text begins with `file`. In the result every extent lies inside file_bytes and has the length that spec,
/// block_samples and num_samples require.
[[nodiscard]] ShardHeader decode_header(std::span<const std::byte, kUserBlockBytes> block, const std::string& file);

/// A shard's entry in a ShardTable.
struct ShardInfo {
  std::string file;  ///< name of the file in the table's folder
  std::int64_t num_samples = 0;
  std::int64_t bytes = 0;  ///< size of the file
  Uuid uuid = {};
  std::uint32_t header_crc = 0;
  bool operator==(const ShardInfo&) const = default;
};

}  // namespace mn::data

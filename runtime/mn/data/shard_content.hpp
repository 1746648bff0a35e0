/// One shard before it is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mn/data/manifest.hpp>
#include <mn/data/shard_format.hpp>

namespace mn::data {

/// All of one shard, in memory.
struct ShardContent {
  SampleKind kind = SampleKind::kFixed;
  DType dtype = DType::kUInt8;
  std::vector<std::int64_t> shape;  ///< of one fixed sample
  ByteBuffer bytes;                 ///< samples, back to back
  std::vector<std::int32_t> labels;
  // Encoded samples only; add_encoded() fills them.
  std::vector<std::uint64_t> offsets = {0};
  std::vector<std::uint16_t> hwc;
  std::string key_bytes;
  std::vector<std::uint64_t> key_offsets = {0};

  std::map<std::string, std::string> attributes;  ///< of the HDF5 file: split, converter, source, …

  [[nodiscard]] std::uint64_t size() const noexcept { return labels.size(); }
  void add_encoded(std::span<const std::byte> sample, std::int32_t label,
                   std::array<std::uint16_t, 3> height_width_channels, std::string_view key);
};

/// "train-00042-of-01000.h5".
[[nodiscard]] std::string shard_name(const std::string& split, std::size_t index, std::size_t count);

/// Fixed samples that go into one shard of about `shard_bytes`: whole blocks, if it holds several.
[[nodiscard]] std::int64_t samples_per_shard(const SampleSpec& spec, std::int64_t shard_bytes);

/// Writes `file` and publishes it at once: a reader sees all of it or none. Its uuid is a function of the content.
/// Thread-safe. Throws DataError with the system's reason (a full disk, …), and leaves no file behind.
ShardInfo write_shard(const std::filesystem::path& file, const ShardContent& content);

}  // namespace mn::data

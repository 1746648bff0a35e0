/// The content of one shard, and write_shard(), which writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mn/data/manifest.hpp>
#include <mn/data/shard_format.hpp>

namespace mn::data {

struct ShardContent {
  ShardContent() = default;
  explicit ShardContent(SampleSpec samples_spec) : spec(std::move(samples_spec)), samples(spec) {}

  SampleSpec spec;
  RawSamples samples;
  // Only for encoded images with a class; add_encoded() fills these members.
  std::vector<std::uint16_t> hwc;
  std::string key_bytes;
  std::vector<std::uint64_t> key_offsets = {0};

  std::map<std::string, std::string> attributes;  ///< attributes of the HDF5 file: split, converter, source, …

  [[nodiscard]] std::int64_t size() const noexcept { return samples.size(); }
  /// Adds an encoded image and its label, and records its size and its source `key`.
  void add_encoded(std::span<const std::byte> sample, std::int64_t label,
                   std::array<std::uint16_t, 3> height_width_channels, std::string_view key);
  /// Records size and key as add_encoded() does, but adds no sample.
  void add_info(std::array<std::uint16_t, 3> height_width_channels, std::string_view key);
};

/// The name of shard `index` of `count`, such as "train-00042-of-01000.h5".
[[nodiscard]] std::string shard_file_name(const std::string& split, std::size_t index, std::size_t count);

/// The number of samples in a shard of about `shard_bytes` if all fields are fixed. If it has several blocks, all are
/// whole.
[[nodiscard]] std::int64_t samples_per_shard(const SampleSpec& spec, std::int64_t shard_bytes);

/// Writes the shard `file` and publishes it atomically. The shard's uuid is a function of the content. If writing
/// fails, throws DataError with the system's reason (a full disk, …) and leaves no file behind. Thread-safe. Without
/// `block_samples`, a block has default_block_samples(spec) samples.
ShardInfo write_shard(const std::filesystem::path& file, const ShardContent& content,
                      std::optional<std::int64_t> block_samples = {});

}  // namespace mn::data

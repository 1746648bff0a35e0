/// Writes one rank's shard of a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include <mn/checkpoint/format/checkpoint_manifest.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>

namespace mn {

/// Writes a new file, which is on stable storage when finish() returns. If a write fails, or if the file already
/// exists, throws a FileError that names the file. Memory holds only the header.
class TensorShardWriter {
 public:
  /// Writes the header. `parts` are in the order of their data. Parts with wide elements come first, because then every
  /// part is aligned.
  TensorShardWriter(const std::filesystem::path& path, std::vector<ShardPart> parts);
  /// Appends the next bytes of the current part, at most up to the end of the part. Call it for an empty part, too.
  void write(std::span<const std::byte> bytes);
  /// Call it after the last part was written. Returns a description of the shard for add_shard().
  [[nodiscard]] nlohmann::json finish();

 private:
  File file_;
  std::vector<ShardPart> parts_;
  std::uint64_t header_bytes_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t written_of_part_ = 0;
  std::uint32_t checksum_ = 0;  // CRC-32C of what was written of the current part
  std::vector<std::uint32_t> checksums_;
};

/// Adds a rank's shard to the manifest. Call it once for each rank, in the order of ranks.
void add_shard(Manifest& manifest, const nlohmann::json& description);
/// Called after the last add_shard(): sorts the pieces of each tensor.
void complete(Manifest& manifest);

}  // namespace mn

/// Writes one rank's shard of a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <mn/checkpoint/format/checkpoint_manifest.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>

namespace mn {

/// Elements [begin, end) of a tensor, as a part of one rank's shard.
struct ShardPart {
  std::string tensor;
  std::string dtype;  ///< the name in safetensors
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_complex = false;  ///< complex numbers, as pairs of real numbers along the last dimension

  [[nodiscard]] std::uint64_t bytes() const;
};

/// Writes a new file, which is on stable storage when finish() returns. If a write fails, or if the file already
/// exists, throws a FileError that names the file. Memory holds only the header.
class TensorShardWriter {
 public:
  /// Creates the file and writes its header. `parts` are in the order of their data in the file: parts with wide
  /// elements must come first, so that each part is aligned.
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

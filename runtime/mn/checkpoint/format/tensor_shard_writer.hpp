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

/// Elements [begin, end) of a tensor that a rank is to write.
struct ShardPart {
  std::string tensor;
  std::string dtype;  ///< one of safetensors' names
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_complex = false;  ///< the tensor is pairs of real numbers that stand for complex ones

  [[nodiscard]] std::uint64_t bytes() const;
};

/// A file that must not be there yet, and that is on stable storage when finish() returns. Errors: FileError that names
/// the file. Memory: none beside the header.
class TensorShardWriter {
 public:
  /// Creates the file and writes its header; `parts` in the order of their data, those of wide elements first, so that
  /// each is aligned.
  TensorShardWriter(const std::filesystem::path& path, std::vector<ShardPart> parts);
  /// The next bytes of a part, up to its end at most; an empty part needs a call, too.
  void write(std::span<const std::byte> bytes);
  /// After the last part. Returns what add_shard() takes.
  [[nodiscard]] nlohmann::json finish();

 private:
  File file_;
  std::vector<ShardPart> parts_;
  std::uint64_t header_bytes_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t written_of_part_ = 0;
  std::uint32_t checksum_ = 0;  // of the part so far
  std::vector<std::uint32_t> checksums_;
};

/// Adds shard manifest.shards.size(), as its writer described it.
void add_shard(Manifest& manifest, const nlohmann::json& description);
/// After the last shard: orders the pieces of each tensor.
void complete(Manifest& manifest);

}  // namespace mn

/// The manifest of a checkpoint: a file that lists the tensors, and says where their elements are stored.
///
/// A checkpoint is a folder with a file shard-RRRRR-of-NNNNN.safetensors of each of the N ranks, and manifest.json,
/// which is written last. A folder without a manifest is not a checkpoint. A tensor is stored in one or several pieces;
/// a piece is a range of elements in row-major order. In its shard, a whole tensor has its name and shape; a part of a
/// tensor is called NAME[BEGIN:END] and has one dimension. Any reader of safetensors reads a shard.
///
/// (1) The text is {"crc32c":"HHHHHHHH","manifest":BODY} and a line end: BODY as nlohmann::json::dump() writes it, and
///     the CRC-32C of BODY. A value can be written in only one way, which rules out repeated keys.
/// (2) The pieces of a tensor cover each element once, in ascending order.
/// (3) The pieces of a shard cover each byte of its data once, and determine its header. So every byte of a shard is
///     either covered by a checksum or determined by the manifest.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {

/// Elements [begin, end) of a tensor, and their place.
struct SavedPiece {
  std::size_t shard = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  ///< bytes from the end of the shard's header
  std::uint32_t crc32c = 0;
};

struct SavedTensor {
  std::string dtype;  ///< the name in safetensors: "F32", …
  std::vector<std::int64_t> shape;
  std::vector<SavedPiece> pieces;  ///< ascending
  bool is_complex = false;         ///< complex numbers, as pairs of real numbers along the last dimension

  [[nodiscard]] std::uint64_t bytes() const;
};

struct SavedShard {
  std::uint64_t bytes = 0;         ///< size of the file
  std::uint64_t header_bytes = 0;  ///< bytes before the tensors' data
};

struct Manifest {
  nlohmann::json about;            ///< state of the training: counters, iterator, …
  std::vector<SavedShard> shards;  ///< by rank
  std::map<std::string, SavedTensor> tensors;
};

/// Thrown if the manifest is undamaged, but has the format of a different version of mn.
class VersionError : public DataError {
 public:
  using DataError::DataError;
};

inline constexpr const char* kCheckpointManifestName = "manifest.json";
/// Name of a file that protects the checkpoint in whose folder it lies from removal.
inline constexpr const char* kPinName = "pinned";

/// "shard-00003-of-00016.safetensors"
[[nodiscard]] std::string checkpoint_shard_name(std::size_t shard, std::size_t shards);
/// The name in a checkpoint of rank 3's own tensor NAME: "rank.3/NAME".
[[nodiscard]] std::string own_tensor_name(std::size_t rank, const std::string& name);
/// The name of a piece in its shard: "weight", or "weight[64:128]" for a part of a tensor.
[[nodiscard]] std::string piece_name(const std::string& tensor, const SavedTensor& of, const SavedPiece& piece);

[[nodiscard]] std::string manifest_text(const Manifest& manifest);
/// Throws a DataError of one line that begins with `source` unless the text is a manifest with the properties (1) to
/// (3). Throws VersionError if the format is of a different version of mn.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& source);

/// The bytes of a shard before its data. The manifest determines these bytes (3).
[[nodiscard]] std::string shard_header(const Manifest& manifest, std::size_t shard);

}  // namespace mn

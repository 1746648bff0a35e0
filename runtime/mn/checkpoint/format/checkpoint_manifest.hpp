/// The manifest of a checkpoint: which tensors it holds, and where their elements lie.
///
/// A checkpoint is a folder: shard-RRRRR-of-NNNNN.safetensors of each of the N ranks that saved it, and manifest.json,
/// which is written last. A folder without a manifest is not a checkpoint. A tensor is one piece, or several, each a
/// range of its elements in row-major order. A piece that is a whole tensor has the tensor's name and shape in its
/// shard, another one is called NAME[BEGIN:END] and has one dimension: any reader of safetensors reads a shard.
///
/// (1) The text is {"crc32c":"HHHHHHHH","manifest":BODY} and a line end, BODY as nlohmann::json::dump() writes it, with
///     its CRC-32C: one value has one text, so a repeated key is found too.
/// (2) The pieces of a tensor cover it from its first element to its last, each element once.
/// (3) The pieces of a shard cover its data likewise, and its header follows from them. So every byte of a checkpoint
///     is covered by a checksum or known beforehand.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {

/// Elements [begin, end) of a tensor, and where they are.
struct SavedPiece {
  std::size_t shard = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  ///< bytes from the end of the shard's header
  std::uint32_t crc32c = 0;
};

struct SavedTensor {
  std::string dtype;  ///< one of safetensors' names: "F32", …
  std::vector<std::int64_t> shape;
  std::vector<SavedPiece> pieces;  ///< ascending
  bool is_complex = false;         ///< pairs of real numbers, along the last dimension, that stand for complex ones

  [[nodiscard]] std::uint64_t elements() const;
  [[nodiscard]] std::uint64_t bytes() const;
};

struct SavedShard {
  std::uint64_t bytes = 0;         ///< size of the file
  std::uint64_t header_bytes = 0;  ///< what lies before the tensors' data
};

struct Manifest {
  nlohmann::json about;            ///< what training said of itself: counters, iterator, …
  std::vector<SavedShard> shards;  ///< by rank
  std::map<std::string, SavedTensor> tensors;
};

/// A whole manifest that another version of mn has written.
class VersionError : public DataError {
 public:
  using DataError::DataError;
};

inline constexpr const char* kManifestName = "manifest.json";
/// A file of this name keeps the checkpoint, whatever its age.
inline constexpr const char* kPinName = "pinned";

/// "shard-00003-of-00016.safetensors"
[[nodiscard]] std::string shard_name(std::size_t shard, std::size_t shards);
/// The name in a checkpoint of what one rank has for itself: "rank.3/NAME".
[[nodiscard]] std::string own_tensor_name(std::size_t rank, const std::string& name);
/// "weight", or "weight[64:128]" where it is a part.
[[nodiscard]] std::string piece_name(const std::string& tensor, const SavedTensor& of, const SavedPiece& piece);

[[nodiscard]] std::string manifest_text(const Manifest& manifest);
/// Throws DataError of one line that begins with `source` unless the text is a manifest with all that is said above;
/// VersionError if it has another format.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& source);

/// The bytes of a shard before its data: what write and check agree on.
[[nodiscard]] std::string shard_header(const Manifest& manifest, std::size_t shard);

}  // namespace mn

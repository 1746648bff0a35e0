/// The manifest of a checkpoint: a file that lists the tensors, and says where their elements are stored.
///
/// A checkpoint is a folder. It has a file shard-RRRRR-of-NNNNN.safetensors for each of the N ranks, and manifest.json,
/// which is written last. A folder without a manifest is not a checkpoint. A tensor is stored in one or several pieces;
/// a piece is a range of elements in row-major order. In its shard, a whole tensor has its name and shape; a part of a
/// tensor is called NAME[BEGIN:END] and has one dimension. Any reader of safetensors reads a shard.
///
/// (1) The text is {"crc32c":"HHHHHHHH","manifest":BODY} and a line end. HHHHHHHH is the CRC-32C of BODY, and BODY is
///     as nlohmann::json::dump() writes it: a value can be written in only one way, which rules out repeated keys.
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

/// A piece of a tensor, elements [begin, end), and its place in a shard.
struct SavedPiece {
  std::size_t shard = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  ///< bytes from the end of the shard's header
  std::uint32_t crc32c = 0;
};

/// Elements [begin, end) of a tensor, as a part of one rank's shard.
struct ShardPart {
  std::string tensor;
  std::string dtype;  ///< the name in safetensors
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_complex = false;  ///< complex numbers, as pairs of real numbers along the last dimension

  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] bool is_whole() const;
  /// Returns the name of this part in its shard: "weight" if the part is a whole tensor, otherwise for instance
  /// "weight[64:128]".
  [[nodiscard]] std::string name() const;
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

/// Thrown if a manifest is undamaged, but has the format of a different version of mn.
class VersionError : public DataError {
 public:
  using DataError::DataError;
};

inline constexpr const char* kCheckpointManifestName = "manifest.json";
/// If a checkpoint's folder contains a file of this name, the checkpoint is never removed because of its age.
inline constexpr const char* kPinName = "pinned";

/// Returns the name of the file that one rank writes, for instance "shard-00003-of-00016.safetensors".
[[nodiscard]] std::string checkpoint_shard_name(std::size_t shard, std::size_t shards);
/// Returns the name that a checkpoint gives to the tensor NAME of a single rank, for instance "rank.3/NAME" for rank 3.
[[nodiscard]] std::string own_tensor_name(std::size_t rank, const std::string& name);

[[nodiscard]] std::string manifest_text(const Manifest& manifest);
/// Parses the text of a manifest, and checks the properties (1) to (3). If a property is violated, throws a DataError
/// of one line, beginning with `source`. Throws VersionError if a different version of mn has written the manifest.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& source);

/// The bytes of a shard before its data, which has `parts` in this order.
[[nodiscard]] std::string shard_header(const std::vector<ShardPart>& parts);
/// The bytes of a shard before its data. Invariant 3: the manifest determines these bytes.
[[nodiscard]] std::string shard_header(const Manifest& manifest, std::size_t shard);

}  // namespace mn

/// Checkpoints: one file for the whole job, written atomically, checked by checksums, readable on any number of ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <mn/core/json.hpp>

namespace mn {

class Communicator;

/// What a checkpoint holds; a Trainer fills and reads it.
///
/// File, little endian: "mn-ckpt1", u64 bytes of the index, u32 CRC-32C of the index, u32 0, the index (JSON: "about"
/// and for each section its name, bytes and CRC-32C), then the sections back to back to the end of the file.
struct Checkpoint {
  nlohmann::json about;            ///< counters, iterator, extensions, …
  std::string model;               ///< parameters and buffers, as safetensors
  std::string optimizer;           ///< state and options, as libtorch's archive
  std::vector<std::string> ranks;  ///< what differs between ranks (random numbers, …), as safetensors
};

/// Atomic. Throws Error that names the file.
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
/// Throws DataError that names the file, what is wrong with it and the way out.
[[nodiscard]] Checkpoint read_checkpoint(const std::filesystem::path& path);

/// FOLDER/snapshot_iter_N.
[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t iteration);
/// The checkpoints in `folder`, the last written first.
[[nodiscard]] std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& folder);
/// Removes all but the `keep` last written, and what killed jobs left unfinished. Not while one is being written.
void remove_old_checkpoints(const std::filesystem::path& folder, std::size_t keep);

/// Collective: rank 0 reads and sends. `from` is a file, or "auto": the newest in `folder` that is undamaged, with a
/// warning for each damaged one, or nothing. `ranks` is empty if the number of ranks has changed, and else holds this
/// rank's alone, at its place. Throws DataError on all ranks alike.
[[nodiscard]] std::optional<Checkpoint> load_checkpoint(Communicator& comm, const std::string& from,
                                                        const std::filesystem::path& folder);

}  // namespace mn

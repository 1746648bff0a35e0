/// Checkpoints: one file for the whole job, written atomically, checked by checksums, readable on any number of ranks.
///
/// The file, little endian: "mn-ckpt2", u64 bytes of the index, u32 CRC-32C of the index, u32 0, the index, then the
/// sections. The index is JSON: "about", and for each section its name, bytes and CRC-32C. The sections are "model",
/// "optimizer", "extensions" and "rank.0" …, back to back to the end of the file.
/// (1) Every byte is covered by the magic, a checksum or the file's length: a change or a cut anywhere is found.
/// (2) A file has its name only when it is complete (AtomicFile): a killed job leaves the one before.
/// (3) What is the same on all ranks is stored once; only what differs has a section for each rank.
/// Cost: rank 0 gathers the ranks' sections, and writes or reads the file alone; at a resume it broadcasts what all
/// ranks need and scatters the rest.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <mn/core/json.hpp>

namespace mn {

class Communicator;

/// What a checkpoint holds. A Trainer fills and reads it.
struct Checkpoint {
  nlohmann::json about;            ///< counters, iterator, extensions, …
  std::string model;               ///< parameters and buffers, as safetensors
  std::string optimizer;           ///< state and options, as libtorch's archive
  std::string extensions;          ///< tensors of extensions, as safetensors
  std::vector<std::string> ranks;  ///< what differs between ranks (random numbers, …), as safetensors
};

/// Atomic. Throws Error that names the file.
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
/// Throws DataError that names the file, the damage and the remedy.
[[nodiscard]] Checkpoint read_checkpoint(const std::filesystem::path& path);

/// Collective: rank 0 reads and sends. `from` is a file, or "auto" for the newest undamaged one in `folder`, with a
/// warning for each damaged one; std::nullopt if there is none. Of the result's `ranks` each rank gets its own entry
/// alone; they are empty if the number of ranks has changed. Throws the same DataError on every rank.
[[nodiscard]] std::optional<Checkpoint> load_checkpoint(Communicator& comm, const std::string& from,
                                                        const std::filesystem::path& folder);

}  // namespace mn

/// Checkpoints: one file for the whole job, written atomically, checked by checksums, readable on any number of ranks.
///
/// (1) A file has its name only when it is complete: a killed job leaves the one before.
/// (2) What is the same on all ranks is stored once; only what differs has a section for each rank.
/// (3) Rank 0 writes and reads the file alone, and holds one rank's section at a time beside its own: what it needs
///     does not grow with the number of ranks. All ranks need memory for what they share once more, as bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <mn/core/json.hpp>

namespace mn {

class Communicator;

/// What a rank has of a checkpoint. A Trainer fills and reads it.
struct Checkpoint {
  nlohmann::json about;    ///< counters, iterator, extensions, …
  std::string model;       ///< parameters and buffers, as safetensors
  std::string optimizer;   ///< state and options, as libtorch's archive
  std::string extensions;  ///< tensors of extensions, as safetensors
  std::string own;         ///< what differs between ranks (random numbers, …), as safetensors
  std::int64_t ranks = 0;  ///< that have saved it
};

/// Collective: saves what is in `checkpoint` on rank 0, and `own` of every rank; `ranks` is not read. Throws the same
/// DataError, which names the file, on every rank.
void save_checkpoint(Communicator& comm, const std::filesystem::path& path, const Checkpoint& checkpoint);

/// Collective: rank 0 reads and sends. `from` is a file, or "auto" for the newest undamaged one in `folder`, with a
/// warning for each damaged one; std::nullopt if all are. `own` is empty if `ranks` is not the communicator's
/// size. Throws the same DataError on every rank.
[[nodiscard]] std::optional<Checkpoint> load_checkpoint(Communicator& comm, const std::string& from,
                                                        const std::filesystem::path& folder);

}  // namespace mn

/// Loads a checkpoint. More or fewer ranks than now may have saved it.
///
/// (1) No tensor is returned before the whole checkpoint was checked. Rank r checks the shards r, r + ranks, r + 2 ·
///     ranks, and so on.
/// (2) Tensors are read from the file directly into the caller's memory. Every rank reads all shared tensors from
///     files; a node's page cache reads them from the storage only once.
/// (3) Of the tensors that belong to a single rank, each rank reads only its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/checkpoint.hpp>
#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {

class CheckpointReader {
 public:
  /// Collective: opens a checkpoint. `from` is its path, or "auto" for the newest undamaged checkpoint of the output
  /// folder `out`; a warning then names each damaged checkpoint. Returns null if there is no checkpoint at all. Every
  /// rank throws an equal DataError if all checkpoints are damaged. The same happens if another version of mn has
  /// written the newest checkpoint or the storage fails, because then nobody can know which checkpoints are undamaged.
  [[nodiscard]] static std::unique_ptr<CheckpointReader> open(Communicator& comm, const std::string& from,
                                                              const std::filesystem::path& out);
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return folder_.folder(); }
  [[nodiscard]] const nlohmann::json& about() const noexcept { return folder_.manifest().about; }
  /// Number of ranks that have saved the checkpoint.
  [[nodiscard]] std::int64_t ranks() const noexcept { return static_cast<std::int64_t>(folder_.ranks()); }

  /// Returns dtype and shape of each shared tensor whose name begins with `prefix`, under its name without `prefix`.
  [[nodiscard]] TensorForms shared(const std::string& prefix) const;
  /// Collective: fills each tensor NAME, on any device, from the shared tensor `prefix` + NAME, whose dtype and shape
  /// must match (shared()). Of a sharded parameter without memory, fills this rank's piece. Throws an equal DataError
  /// on every rank.
  void read(const std::string& prefix, const NamedTensors& tensors);
  /// Collective: fills each piece NAME, on any device, from the shared tensor `prefix` + NAME. Throws an equal
  /// DataError on every rank.
  void read(const std::string& prefix, const std::vector<TensorPiece>& pieces);
  /// Not collective: returns the tensors that belong to this rank alone. Returns none if more or fewer ranks than now
  /// have saved the checkpoint.
  [[nodiscard]] NamedTensors own();

 private:
  CheckpointReader(Communicator& comm, SavedCheckpoint folder);
  void check();
  void fill(const std::string& name, at::Tensor target, std::optional<std::uint64_t> begin);

  Communicator& comm_;
  SavedCheckpoint folder_;
};

}  // namespace mn

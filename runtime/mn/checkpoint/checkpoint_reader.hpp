/// Loads a checkpoint. It may have been saved by more or fewer ranks.
///
/// (1) No tensor is returned before the whole checkpoint was checked. Rank r checks the shards r, r + ranks, …
/// (2) Tensors are read from the file directly into the caller's memory. Every rank reads all shared tensors from
///     files; a node's page cache reads them from the storage only once.
/// (3) Of the tensors that belong to a single rank, each rank reads only its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {

class CheckpointReader {
 public:
  /// Collective: opens a checkpoint. `from` is its path, or "auto": the newest undamaged checkpoint of the output
  /// folder `out`; a warning names each damaged checkpoint. Null if there is no checkpoint at all. Throws an equal
  /// DataError on every rank if all checkpoints are damaged, if a different version of mn has written the newest one,
  /// or if the storage fails: nobody can then know which checkpoints are undamaged.
  [[nodiscard]] static std::unique_ptr<CheckpointReader> open(Communicator& comm, const std::string& from,
                                                              const std::filesystem::path& out);
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return folder_.folder(); }
  [[nodiscard]] const nlohmann::json& about() const noexcept { return folder_.manifest().about; }
  /// Number of ranks that have saved the checkpoint.
  [[nodiscard]] std::int64_t ranks() const noexcept { return static_cast<std::int64_t>(folder_.ranks()); }

  /// The forms of the shared tensors whose names begin with `prefix`, named without `prefix`.
  [[nodiscard]] TensorForms shared(const std::string& prefix) const;
  /// Collective: fills each tensor NAME, on any device, from the shared tensor `prefix` + NAME, whose dtype and shape
  /// must match (shared()). Throws an equal DataError on every rank.
  void read(const std::string& prefix, const NamedTensors& tensors);
  /// Not collective: this rank's own tensors. Empty if more or fewer ranks have saved the checkpoint.
  [[nodiscard]] NamedTensors own();

 private:
  CheckpointReader(Communicator& comm, SavedCheckpoint folder);
  void check();

  Communicator& comm_;
  SavedCheckpoint folder_;
};

}  // namespace mn

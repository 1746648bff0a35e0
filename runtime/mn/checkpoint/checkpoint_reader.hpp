/// Loads a checkpoint of any number of ranks.
///
/// (1) Nothing is handed out before all of the checkpoint was found undamaged: the ranks check its shards by turns.
/// (2) Tensors go straight into the caller's; one rank of each node reads what all ranks have, and sends it to those
///     beside it.
/// (3) A rank reads no other rank's own tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {

class Communicator;

class CheckpointReader {
 public:
  /// Collective. `from` is a checkpoint, or "auto" for the newest undamaged one of the output folder, with a warning
  /// for each damaged one; null if there is none at all. Throws the same DataError on every rank, also if all are
  /// damaged, if the storage fails, so that it can't be told which there are or whether they are damaged, and if
  /// another version of mn has written the newest.
  [[nodiscard]] static std::unique_ptr<CheckpointReader> open(Communicator& comm, const std::string& from,
                                                              const std::filesystem::path& out);
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return folder_.folder(); }
  [[nodiscard]] const nlohmann::json& about() const noexcept { return folder_.manifest().about; }
  /// Ranks that have saved it.
  [[nodiscard]] std::int64_t ranks() const noexcept { return static_cast<std::int64_t>(folder_.ranks()); }

  /// The tensors that all ranks have whose names begin with `prefix`, without it.
  [[nodiscard]] TensorForms shared(const std::string& prefix) const;
  /// Collective: fills these tensors, of the forms that shared() says, on any device; their names are without `prefix`.
  /// Throws the same DataError on every rank.
  void read(const std::string& prefix, const NamedTensors& tensors);
  /// Local: the tensors of this rank; none if another number of ranks has saved it.
  [[nodiscard]] NamedTensors own();

 private:
  CheckpointReader(Communicator& comm, SavedCheckpoint folder);
  void check();

  Communicator& comm_;
  std::shared_ptr<Communicator> node_;  // null: alone on its node
  SavedCheckpoint folder_;
};

}  // namespace mn

/// The state of a training for a checkpoint.
///
/// "about" holds what is equal on all ranks. The tensors "model/…", "optimizer/NAME/…" and "extensions/…" are stored
/// once for all ranks; if ranks differ in buffers (batch normalization's statistics), rank 0's are stored there. The
/// own tensors of a rank are its random numbers, its buffers if they differ from rank 0's, its multi-node optimizer's
/// rank_state(), and with local SGD the torch optimizer's state.
/// A training that has diverged is not saved: every checkpoint has an objection to NaN and infinity.
#pragma once

#include <set>
#include <string>

#include <mn/checkpoint/contents.hpp>
#include <mn/trainer/training_parts.hpp>

namespace mn {

class TrainingState {
 public:
  /// Notes the tensors of the model that hold NaN or infinity now: there is no objection to them later.
  explicit TrainingState(const TrainingParts& parts);

  /// Collective. The whole checkpoint, with borrowed tensors.
  [[nodiscard]] Checkpoint checkpoint();
  /// Collective. The tensors that exist now, without "about": shows how much memory a save needs.
  [[nodiscard]] Checkpoint tensors() const;

 private:
  [[nodiscard]] nlohmann::json replicated_state() const;
  void add_tensors(Checkpoint& checkpoint) const;
  void add_buffers(Checkpoint& checkpoint) const;
  [[nodiscard]] std::string objection() const;

  const TrainingParts& parts_;
  std::set<std::string> not_finite_;     // names of tensors
  bool has_checked_optimizers_ = false;  // whether their save() stores anything
};

}  // namespace mn

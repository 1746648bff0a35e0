/// The state of a training, as a checkpoint stores it.
///
/// The checkpoint's object "about" holds the values that are the same on all ranks. The tensors "model/…",
/// "optimizer/NAME/…" and "extensions/…" are stored once for all ranks. If the ranks' buffers differ, as the statistics
/// of batch normalization do, "model/…" has rank 0's buffers. Each rank also stores tensors of its own: its random
/// numbers, its buffers if they differ from rank 0's, the rank_state() of its multi-node optimizer, the rank_tensors()
/// of its extensions, and with local SGD the state of its torch optimizer. A training that has diverged is not saved:
/// if its parameters hold NaN or infinity, Checkpoint::objection says so.
///
/// A training resumes (restore_training()) by these rules:
/// (1) If the number of ranks is unchanged, each rank continues with its own tensors, and training goes on, bit for
///     bit, as if it had not been interrupted.
/// (2) If the number of ranks has changed, rank 0 gets all sums over samples, and every rank takes rank 0's buffers and
///     optimizer state. Random numbers are seeded from the old seed, the iteration and the rank. The rank_state() of
///     each multi-node optimizer starts empty. Each extension makes its tensors from the rank_tensors() of all ranks,
///     or throws.
/// (3) The optimizer must be of the same kind as before. The model's tensors must have the same names, shapes and
///     dtypes as before, but may be in any order.
/// (4) Tensors are read from the file straight into the model's tensors, or become the optimizer's state, so that mn
///     needs no memory for a second copy.
#pragma once

#include <set>
#include <string>

#include <mn/checkpoint/checkpoint.hpp>
#include <mn/trainer/training_parts.hpp>

namespace mn {

class CheckpointReader;

// Prefixes of the names of tensors that are equal on all ranks.
inline const std::string kModelPrefix = "model/";
inline const std::string kExtensionPrefix = "extensions/";
/// Returns the prefix for the torch optimizer's state, if the state is the same on all ranks.
inline std::string state_prefix(const std::string& optimizer) { return "optimizer/" + optimizer + "/"; }

// Prefixes of the names of tensors that belong to one rank.
inline const std::string kOwnBufferPrefix = "buffer.";
/// Returns the prefix for MultiNodeOptimizer::rank_state().
inline std::string own_prefix(const std::string& optimizer) { return "optimizer." + optimizer + "."; }
/// Returns the prefix for the torch optimizer's state where each rank saves a state of its own.
inline std::string own_state_prefix(const std::string& optimizer) { return "optimizer_state." + optimizer + "/"; }

class TrainingState {
 public:
  /// Notes which of the model's tensors hold NaN or infinity now. These tensors will not prevent a checkpoint.
  explicit TrainingState(const TrainingParts& parts);

  /// Collective: makes the whole checkpoint. Its tensors share the memory of the training's tensors.
  [[nodiscard]] Checkpoint checkpoint();
  /// Collective: returns a checkpoint with all tensors, but without "about". The size of the tensors shows how much
  /// memory a save needs.
  [[nodiscard]] Checkpoint tensors() const;

 private:
  [[nodiscard]] nlohmann::json replicated_state() const;
  void add_tensors(Checkpoint& checkpoint) const;
  void add_buffers(Checkpoint& checkpoint) const;
  [[nodiscard]] std::string objection() const;

  const TrainingParts& parts_;
  std::set<std::string> not_finite_;     // names of tensors that may be saved although not finite
  bool has_checked_optimizers_ = false;  // warn_of_unsaved_state() was called
};

/// Collective: restores a training from `checkpoint`. Throws the same DataError on every rank if the model, the
/// optimizer or an extension does not match.
void restore_training(TrainingParts& parts, CheckpointReader& checkpoint);

}  // namespace mn

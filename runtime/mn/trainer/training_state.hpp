/// The state of a training for a checkpoint.
///
/// The checkpoint's object "about" holds the values that are the same on all ranks. The tensors "model/…",
/// "optimizer/NAME/…" and "extensions/…" are stored once for all ranks. If ranks differ in buffers (batch
/// normalization's statistics), "model/…" has rank 0's buffers. Each rank also stores tensors of its own: its random
/// numbers, its buffers if they differ from rank 0's, the rank_state() of its multi-node optimizer, the rank_tensors()
/// of its extensions, and with local SGD the state of its torch optimizer. A training that has diverged is not saved:
/// NaN or infinity in its parameters becomes the reason not to save (Checkpoint::objection).
///
/// A resume (restore_training()):
/// (1) With as many ranks as before, each rank continues with its own tensors, and training goes on bit for bit as
///     without an interruption.
/// (2) With another number of ranks, sums over samples go to rank 0, and every rank takes rank 0's buffers and
///     optimizer state. Random numbers are seeded from the old seed, the iteration and the rank; the rank_state() of
///     each rank's optimizer starts empty; extensions map the rank_tensors() of all ranks, or reject them.
/// (3) The optimizer's kind must match; the model must match in names, shapes and dtypes, in any order.
/// (4) Tensors go from the file straight into the model's tensors, or become the optimizer's state: mn holds no second
///     copy.
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
/// The prefix for the torch optimizer's state, if it is the same on all ranks.
inline std::string state_prefix(const std::string& optimizer) { return "optimizer/" + optimizer + "/"; }

// Prefixes of the names of tensors that belong to one rank.
inline const std::string kOwnBufferPrefix = "buffer.";
/// The prefix for MultiNodeOptimizer::rank_state().
inline std::string own_prefix(const std::string& optimizer) { return "optimizer." + optimizer + "."; }
/// The prefix for the torch optimizer's state, if each rank has a state of its own.
inline std::string own_state_prefix(const std::string& optimizer) { return "optimizer_state." + optimizer + "/"; }

class TrainingState {
 public:
  /// Checkpoints do not object to the model's tensors that hold NaN or infinity now.
  explicit TrainingState(const TrainingParts& parts);

  /// Collective: makes the whole checkpoint. Its tensors share the memory of the training.
  [[nodiscard]] Checkpoint checkpoint();
  /// Collective: the checkpoint's tensors, without "about". Their size shows how much memory a save needs.
  [[nodiscard]] Checkpoint tensors() const;

 private:
  [[nodiscard]] nlohmann::json replicated_state() const;
  void add_tensors(Checkpoint& checkpoint) const;
  void add_buffers(Checkpoint& checkpoint) const;
  [[nodiscard]] std::string objection() const;

  const TrainingParts& parts_;
  std::set<std::string> not_finite_;     // names of tensors
  bool has_checked_optimizers_ = false;  // the first save has checked whether optimizers store a state
};

/// Collective: restores a training. `source` names the checkpoint in errors. Throws the same DataError on every rank if
/// the model or the optimizer does not match.
void restore_training(TrainingParts& parts, CheckpointReader& checkpoint, const std::string& source);

}  // namespace mn

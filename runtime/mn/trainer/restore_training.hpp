/// How a training resumes from a checkpoint; training_state.hpp lists the contents.
///
/// (1) With as many ranks as before, each rank continues with its own tensors: bit for bit as without an interruption.
/// (2) With another number of ranks, sums over samples go to rank 0, and every rank takes rank 0's buffers and
///     optimizer state. Random numbers are seeded from the old seed, the iteration and the rank; what each rank's
///     optimizer kept for itself starts empty.
/// (3) The optimizer's kind must match; the model must match in names, shapes and dtypes, in any order.
/// (4) Tensors go from the file straight into the model's tensors, or become the optimizer's state: no copy is held.
#pragma once

#include <string>

#include <mn/trainer/training_parts.hpp>

namespace mn {

class CheckpointReader;

/// Collective. `source` names the checkpoint in errors. Throws the same DataError on every rank if the model or the
/// optimizer is not the checkpoint's.
void restore_training(TrainingParts& parts, CheckpointReader& checkpoint, const std::string& source);

}  // namespace mn

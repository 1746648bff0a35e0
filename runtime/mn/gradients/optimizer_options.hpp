/// How the ranks of a multi-node optimizer train together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <mn/comm/device/nccl_limits.hpp>
#include <mn/gradients/compression/compression_options.hpp>
#include <mn/optimizers/grad_scaler.hpp>

namespace mn {

class Communicator;
class Trace;

/// By default the step averages the gradients of all ranks. Overlap or double buffering changes when the gradients are
/// reduced; compression changes what is sent. Local SGD averages parameters instead, and excludes these three.
struct OptimizerOptions {
  /// Whether buckets of gradients are reduced while backward continues; the result is the same. Without a value,
  /// buckets overlap with backward if there are several nodes or GPUs, unless double buffering, local steps or an MPI
  /// without threads exclude overlap.
  std::optional<bool> overlap = {};
  bool double_buffering = false;  ///< apply the previous step's mean while this step's gradients are reduced
  /// The ranks whose losses train these parameters; null if they are the ranks that average the gradients. An expert
  /// needs loss_ranks: mn::alltoall() brings samples of many ranks to the expert, but only a few ranks average the
  /// expert's gradient. The loss_ranks must include all ranks of the optimizer, and all ranks of each mn::alltoall() in
  /// which a rank of the optimizer takes part. If, for example, two groups of ranks make their own calls of
  /// mn::alltoall(), and an optimizer averages over ranks of both groups, the loss_ranks are the ranks of both groups.
  /// All loss_ranks make each step. Local steps exclude loss_ranks.
  std::shared_ptr<Communicator> loss_ranks = {};
  CompressionOptions compression = {};  ///< how messages are compressed
  std::int64_t local_steps = 1;         ///< updates of each rank between averages of the parameters; 1: no local SGD
  double outer_momentum = 0;            ///< momentum of the averages of local SGD, in [0, 1)
  /// For training in float16: scale_loss() scales losses, and all ranks leave out a step whose gradients overflow.
  /// Excludes double buffering, local steps, topk and powersgd.
  std::optional<GradScalerOptions> grad_scaler = {};
  bool check_gradients = true;  ///< throw if a gradient changes between backward and step()
  /// Number of updates between two comparisons of the ranks' parameters; 0: never. A comparison takes a pass over the
  /// parameters, and sends 8 bytes. In debug mode each update compares. Does not apply with local steps.
  std::int64_t check_parameters = 1000;
  bool deterministic = false;                       ///< overlap: do not tune `bucket_bytes` and the order in memory
  std::size_t bucket_bytes = std::size_t{4} << 20;  ///< overlap: bytes of a bucket before tuning
  NcclLimits nccl_limits = {};                      ///< overlap: of the reductions during backward
  std::shared_ptr<Trace> trace = {};                ///< records communication and updates, if not null
};

/// Throws UsageError if the options contradict each other or are out of range.
void check_options(const OptimizerOptions& options);

}  // namespace mn

/// How the ranks of a multi-node optimizer train together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <mn/comm/device/nccl_limits.hpp>
#include <mn/gradients/compression/compression_options.hpp>
#include <mn/optimizers/grad_scaler.hpp>
#include <mn/sharding/shard_options.hpp>

namespace mn {

class Communicator;
class Trace;

/// By default each step averages the gradients of all ranks. Overlap and double buffering change when the gradients are
/// reduced; compression changes the form of messages. Local SGD averages parameters instead of gradients, and allows
/// none of overlap, double buffering and compression.
struct OptimizerOptions {
  /// Whether buckets of gradients are reduced while backward continues. The result does not depend on this option.
  /// Without a value, buckets are reduced during backward if there are several nodes or GPUs. Double buffering, local
  /// steps, or an MPI without threads exclude this.
  std::optional<bool> overlap = {};
  bool double_buffering = false;  ///< apply the previous step's mean while this step's gradients are reduced
  /// The ranks whose losses train these parameters; null if only the ranks that average the gradients do. An expert
  /// needs loss_ranks, because mn::alltoall() brings samples of many ranks to the expert, but only a few ranks average
  /// the expert's gradient. The loss_ranks must include all ranks of the optimizer, and all ranks of each
  /// mn::alltoall() in which a rank of the optimizer takes part. For example, two groups of ranks make their own calls
  /// of mn::alltoall(), and an optimizer averages over ranks of both groups. The loss_ranks are then the ranks of both
  /// groups. All loss_ranks make each step. Local steps exclude loss_ranks.
  std::shared_ptr<Communicator> loss_ranks = {};
  ShardOptions shard = {};              ///< what the ranks divide among themselves
  CompressionOptions compression = {};  ///< how messages are compressed
  std::int64_t local_steps = 1;         ///< updates of each rank between averages of the parameters; 1: no local SGD
  double outer_momentum = 0;            ///< momentum of the averages of local SGD, in [0, 1)
  /// For training in float16: scale_loss() multiplies each loss by a scale, and all ranks leave out a step whose
  /// gradients overflow. Excludes double buffering, local steps, topk and powersgd.
  std::optional<GradScalerOptions> grad_scaler = {};
  bool check_gradients = true;  ///< throw if a gradient changes between backward and step()
  /// The number of updates between two checks that all ranks have the same parameters; 0: no checks. A check takes a
  /// pass over the parameters and sends 8 bytes. In debug mode every update is checked. Has no effect with local steps.
  std::int64_t check_parameters = 1000;
  bool deterministic = false;                       ///< overlap: do not tune `bucket_bytes` and the order in memory
  std::size_t bucket_bytes = std::size_t{4} << 20;  ///< overlap: bytes of a bucket before tuning
  NcclLimits nccl_limits = {};                      ///< overlap: limits on NCCL in reductions during backward
  std::shared_ptr<Trace> trace = {};                ///< records communication and updates, if not null
};

/// Throws UsageError if the options contradict each other or are out of range.
void check_options(const OptimizerOptions& options);

}  // namespace mn

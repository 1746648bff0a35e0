/// How the ranks of a multi-node optimizer train together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <mn/gradients/compression/compression_options.hpp>
#include <mn/optimizers/grad_scaler.hpp>

namespace mn {

class Communicator;
class Trace;

/// By default gradients are averaged in each step. Overlap or double buffering changes when, compression what travels.
/// Local SGD averages parameters instead; it combines with none of the others.
struct OptimizerOptions {
  /// Reduce buckets of gradients while backward continues; same result. Without a value: where it pays, that is between
  /// nodes and on GPUs, unless double buffering, local steps or an MPI without threads exclude it.
  std::optional<bool> overlap = {};
  bool double_buffering = false;  ///< apply the previous step's mean while this step's gradients are reduced
  /// The ranks whose losses train these parameters, where that is not the optimizer's communicator: experts of a
  /// mixture, say, to which mn::alltoall() brings samples of all ranks, averaged over one rank or a few. All of them
  /// make each step. Not with local steps.
  std::shared_ptr<Communicator> loss_ranks = {};
  CompressionOptions compression = {};  ///< what travels of the gradients
  std::int64_t local_steps = 1;         ///< updates of each rank between averages of the parameters; 1: none are local
  double outer_momentum = 0;            ///< momentum of those averages, in [0, 1)
  /// For float16: losses go through scale_loss(), and a step whose gradients overflow is left out on all ranks. Not
  /// with double buffering, local steps, topk or powersgd.
  std::optional<GradScalerOptions> grad_scaler = {};
  bool check_gradients = true;  ///< an error where gradients change between backward and step()
  /// Updates between two comparisons of the ranks' parameters, a pass over them and 8 bytes; 0: never. In debug mode
  /// each update compares. Not with local steps.
  std::int64_t check_parameters = 1000;
  bool deterministic = false;  ///< overlap: keep `bucket_bytes` and the order in memory, do not tune them
  std::size_t bucket_bytes = std::size_t{4} << 20;  ///< overlap: bytes of a bucket before tuning
  std::shared_ptr<Trace> trace = {};                ///< records communication and updates, if not null
};

/// Throws UsageError if the options contradict each other or are out of range.
void check_options(const OptimizerOptions& options);

}  // namespace mn

/// What a Trainer is made from: optimizers, a program's own update, limits and output.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <mn/loader/iterator.hpp>
#include <mn/trainer/optimizer.hpp>
#include <mn/trainer/summary.hpp>

namespace mn {

class Trace;

/// An optimizer, and the name under which checkpoints have its state.
struct NamedOptimizer {
  std::string name;                               ///< not empty, different for each
  std::shared_ptr<MultiNodeOptimizer> optimizer;  ///< not null
};

/// An iteration written by the program itself: zero_grad(), forward, backward and step(batch.samples) of its
/// optimizers. An iteration may make any number of steps. Losses and metrics that the function adds to `report`,
/// weighted by samples, become "main/NAME". Every rank calls the function in every iteration. For a minibatch of 0
/// samples, the function must make the same steps, but without a backward pass. Loaders make empty minibatches only
/// with batch size 1, in the last steps of an epoch.
using UpdateParameters = std::function<void(const Batch& batch, Summary& report)>;

/// Whether iterations become a CUDA graph: kOff, never; kAuto, if nothing forbids it; kOn, always. kOn throws
/// UsageError with the reason if there can be no graph.
enum class CudaGraph { kOff, kAuto, kOn };

/// Limits, output and other options of a Trainer.
struct TrainerOptions {
  std::int64_t epochs = 0;      ///< train until this number of epochs is complete; 0: no limit
  std::int64_t iterations = 0;  ///< train for at most this number of iterations; 0: no limit
  /// Number of minibatches in an iteration; their gradients add up. k minibatches of b samples train as one minibatch
  /// of k · b samples (but for batch normalization and dropout), with one reduction and the memory of b samples. The
  /// last iteration of an epoch may have fewer minibatches.
  std::int64_t accumulate = 1;
  /// Whether, after some iterations, the work of an iteration on the GPU is recorded as a CUDA graph. Each later
  /// iteration whose minibatch has the recorded shape launches the graph with one call (graphed_step.hpp). The loss
  /// function must not read values of the GPU, and must not change values on the host.
  CudaGraph cuda_graph = CudaGraph::kOff;
  /// Folder for the files of all extensions; created if absent. The trainer locks the folder.
  std::filesystem::path out = "result";
  /// If true: on SIGTERM, SIGUSR1, SIGUSR2 or SIGHUP to any rank (a scheduler's notice before the end of the job), and
  /// before the job's time limit (from Slurm or MN_END_TIME), all ranks finish the iteration and write a checkpoint,
  /// and run() returns kExitRequeue. The same signal again ends the process at once.
  bool checkpoint_on_signal = false;
  /// If not null, this Trace records the phases of each step. Each step then waits for the device; therefore the times
  /// include the device's work. Give the Trace to the optimizer, too.
  std::shared_ptr<Trace> trace = {};
};

}  // namespace mn

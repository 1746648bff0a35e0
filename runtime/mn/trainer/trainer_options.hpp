/// What a program passes to a Trainer: optimizers, an update of its own, limits and output.
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

/// An optimizer with a name. Checkpoints hold the optimizer's state under this name.
struct NamedOptimizer {
  std::string name;                               ///< not empty; no two optimizers have the same name
  std::shared_ptr<MultiNodeOptimizer> optimizer;  ///< not null
};

/// A function of the program that makes one iteration: zero_grad(), forward, backward and step(batch.samples) of its
/// optimizers. An iteration may make any number of steps. Losses and metrics that the function adds to `report`,
/// weighted by samples, become "main/NAME". Every rank calls the function in every iteration. For a minibatch of 0
/// samples, the function must make the same steps, but without a backward pass. Loaders make such minibatches only with
/// batch size 1, in the last steps of an epoch.
using UpdateParameters = std::function<void(const Batch& batch, Summary& report)>;

/// Whether iterations become a CUDA graph. kOff: never. kAuto: if nothing forbids a graph. kOn: always; if a graph is
/// impossible, UsageError is thrown with the reason.
enum class CudaGraph { kOff, kAuto, kOn };

/// Limits, output and other options of a Trainer.
struct TrainerOptions {
  std::int64_t epochs = 0;      ///< train until this number of epochs is complete; 0: no limit
  std::int64_t iterations = 0;  ///< train for at most this number of iterations; 0: no limit
  /// Number of minibatches in an iteration. Their gradients add up, so that k minibatches of b samples train as one
  /// minibatch of k · b samples, except for batch normalization and dropout. An iteration makes one reduction, and
  /// needs memory for only b samples. The last iteration of an epoch may have fewer minibatches.
  std::int64_t accumulate = 1;
  /// Whether the GPU's work of an iteration becomes a CUDA graph (graphed_step.hpp). The graph is recorded after some
  /// iterations. From then on, each iteration whose minibatch has the recorded shape launches the graph with one call.
  /// The loss function must not read values of the GPU, and must not change values on the host.
  CudaGraph cuda_graph = CudaGraph::kOff;
  /// Folder for the files of all extensions. The trainer makes the folder if it does not exist, and locks it.
  std::filesystem::path out = "result";
  /// If true, and the job is about to end, all ranks finish the iteration and write a checkpoint, and run() returns
  /// kExitRequeue. A job is about to end in two cases: when any rank gets SIGTERM, SIGUSR1, SIGUSR2 or SIGHUP, by which
  /// schedulers announce the end, and shortly before the job's time limit (from Slurm or MN_END_TIME). If the same
  /// signal comes again, the process ends at once.
  bool checkpoint_on_signal = false;
  /// If not null, this Trace records the phases of each step. Each step then waits for the device, so that its times
  /// include the device's work. Give the same Trace to the optimizer.
  std::shared_ptr<Trace> trace = {};
};

}  // namespace mn

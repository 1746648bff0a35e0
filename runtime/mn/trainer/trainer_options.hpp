/// What a Trainer is given: its optimizers, the update of a program that makes its own, and how long it trains.
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

/// One of several optimizers, with the name that checkpoints know it by.
struct NamedOptimizer {
  std::string name;                               ///< not empty, different for each
  std::shared_ptr<MultiNodeOptimizer> optimizer;  ///< not null
};

/// One iteration of a program that updates by itself: zero_grad(), forward, backward and step(batch.samples) of its
/// optimizers, as often as it likes. Losses and metrics that it adds to `report`, with their samples as weight, become
/// "main/NAME". Called on every rank in every iteration. For a minibatch of 0 samples it makes the same steps, without
/// a backward; loaders make such minibatches in the last steps of an epoch if their batch size is 1, else never.
using UpdateParameters = std::function<void(const Batch& batch, Summary& report)>;

/// How long a Trainer trains, and where it writes.
struct TrainerOptions {
  std::int64_t epochs = 0;      ///< train until so many epochs are complete; 0: no limit
  std::int64_t iterations = 0;  ///< train for at most so many iterations; 0: no limit
  /// Minibatches of one iteration, whose gradients become one: k minibatches of b samples train as one of k · b would
  /// (but for batch normalization and dropout), with one reduction and the memory of one. The last iteration of an
  /// epoch may have fewer.
  std::int64_t accumulate = 1;
  /// After some iterations the work of one on the GPU is recorded as a CUDA graph and launched with one call, by every
  /// iteration with a minibatch of the same shape (graphed_step.hpp). The loss may not read values of the GPU.
  bool cuda_graph = false;
  /// Folder for the files of all extensions; made if absent. The trainer locks it against other jobs while it lives.
  std::filesystem::path out = "result";
  /// On SIGTERM, SIGUSR1, SIGUSR2 or SIGHUP to any rank (a scheduler's notice before it ends the job), and before the
  /// job's time limit, of which rank 0 knows from Slurm or MN_END_TIME: all ranks finish the iteration, rank 0 writes a
  /// checkpoint, and run() returns kExitRequeue. The same signal again ends the process at once.
  bool checkpoint_on_signal = false;
  /// Records the phases of each step, if not null. Each step then waits for its device, so that the times are those of
  /// the work. Give the optimizer the same object.
  std::shared_ptr<Trace> trace = {};
};

}  // namespace mn

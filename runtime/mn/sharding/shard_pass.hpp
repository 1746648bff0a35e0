/// Lets programs use sharded parameters (OptimizerOptions::shard) outside training steps.
///
/// From zero_grad() to step() operators gather parameters by themselves, without these classes. If the model's
/// parameters are not sharded, the classes do nothing.
///
///   const mn::ShardPass pass(*model);        // an evaluation
///   accuracy = evaluate(*model);
///
///   const mn::WholeParameters whole(*model);  // rank 0 writes all parameters
///   if (comm->rank() == 0) torch::save(model, "model.pt");
#pragma once

#include <memory>
#include <vector>

namespace torch::nn {
class Module;
}

namespace mn {

class ShardedParameters;

/// The sharded parameters of an optimizer.
struct ShardOwner {
  ShardedParameters* shards;       ///< valid while `life` has not expired
  std::weak_ptr<const void> life;  ///< expires with the optimizer
};

/// While an object lives, operators gather the parameters that they use, and free the previous block. All ranks must
/// have an object at once, but may compute different things, or nothing: the destructor takes part in gathers until all
/// ranks have reached the destructor. The destructor throws if communication fails. Training steps may begin and end
/// while an object lives, for example if a loss uses the networks of two optimizers that step in turn.
class ShardPass {
 public:
  /// Local: begins a pass of the model's sharded parameters.
  explicit ShardPass(const torch::nn::Module& model);
  ~ShardPass() noexcept(false);
  ShardPass(const ShardPass&) = delete;
  ShardPass& operator=(const ShardPass&) = delete;

 private:
  std::vector<ShardOwner> owners_;
  int exceptions_;  // uncaught exceptions of this thread at construction
};

/// Collective: takes part in the gathers of ranks that still compute, until all ranks have called join_shard_passes().
/// Needed before a collective call that a rank without samples reaches early.
void join_shard_passes();

/// While an object lives, every rank has all parameters, and may read and write them. The constructor is collective.
/// Writes must be equal on all ranks. The destructor frees the memory. No optimizer may step meanwhile. An optimizer
/// that ends meanwhile leaves the model whole: the parameters are then usual tensors.
class WholeParameters {
 public:
  /// Collective: gathers all sharded parameters of the model.
  explicit WholeParameters(const torch::nn::Module& model);
  ~WholeParameters();
  WholeParameters(const WholeParameters&) = delete;
  WholeParameters& operator=(const WholeParameters&) = delete;

 private:
  std::vector<ShardOwner> owners_;
};

}  // namespace mn

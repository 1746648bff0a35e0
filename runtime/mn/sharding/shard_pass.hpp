/// Lets programs use the parameters of a model whose optimizer shards them (OptimizerOptions::shard).
///
/// A training step needs none of these classes: from zero_grad() to step() parameters are gathered where operators use
/// them. If the model's parameters are not sharded, the classes do nothing.
///
///   const mn::ShardPass pass(*model);        // an evaluation
///   accuracy = evaluate(*model);
///
///   const mn::WholeParameters whole(*model);  // rank 0 writes all parameters
///   if (comm->rank() == 0) torch::save(model, "model.pt");
#pragma once

#include <vector>

namespace torch::nn {
class Module;
}

namespace mn {

class ShardedParameters;

/// While an object lives, parameters are gathered where operators use them, and freed when another block is used. All
/// ranks must have an object at the same time, but may compute different things, or nothing: the destructor takes part
/// in the gathers of all other ranks until their destructors run. It throws if communication fails.
class ShardPass {
 public:
  explicit ShardPass(const torch::nn::Module& model);
  ~ShardPass() noexcept(false);
  ShardPass(const ShardPass&) = delete;
  ShardPass& operator=(const ShardPass&) = delete;

 private:
  std::vector<ShardedParameters*> began_;
  int exceptions_;  // that this thread unwound already
};

/// Collective: takes part in the gathers of ranks that still compute, until all ranks make this call. Call it in front
/// of a collective call that a rank without samples reaches early.
void join_shard_passes();

/// While an object lives, every rank has all parameters, and may read and write them. The constructor is collective.
/// Writes must be equal on all ranks. The destructor frees the memory.
class WholeParameters {
 public:
  explicit WholeParameters(const torch::nn::Module& model);
  ~WholeParameters();
  WholeParameters(const WholeParameters&) = delete;
  WholeParameters& operator=(const WholeParameters&) = delete;

 private:
  std::vector<ShardedParameters*> held_;
};

}  // namespace mn

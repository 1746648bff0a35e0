#include <mn/sharding/shard_pass.hpp>

#include <algorithm>

#include <mn/sharding/sharded_parameters.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {
namespace {

/// Those that shard parameters of the model, in the order of the model.
std::vector<ShardedParameters*> owners(const torch::nn::Module& model) {
  std::vector<ShardedParameters*> all;
  for (const at::Tensor& parameter : parameters_of(model)) {
    const auto piece = find_piece(parameter);
    if (piece && std::ranges::find(all, piece->owner) == all.end()) all.push_back(piece->owner);
  }
  return all;
}

}  // namespace

ShardPass::ShardPass(const torch::nn::Module& model) {
  for (ShardedParameters* const each : owners(model)) {
    if (each->begin_pass()) began_.push_back(each);
  }
}

ShardPass::~ShardPass() {
  for (ShardedParameters* const each : began_) each->end_pass();
}

WholeParameters::WholeParameters(const torch::nn::Module& model) : held_(owners(model)) {
  for (ShardedParameters* const each : held_) each->hold();
}

WholeParameters::~WholeParameters() {
  for (ShardedParameters* const each : held_) each->let_go();
}

}  // namespace mn

#include <mn/sharding/shard_pass.hpp>

#include <algorithm>
#include <exception>

#include <mn/sharding/sharded_parameters.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {
namespace {

/// The ShardedParameters of the model's parameters, in the order of the model.
std::vector<ShardedParameters*> owners(const torch::nn::Module& model) {
  std::vector<ShardedParameters*> all;
  for (const at::Tensor& parameter : parameters_of(model)) {
    const auto piece = find_piece(parameter);
    if (piece && piece->owner != nullptr && std::ranges::find(all, piece->owner) == all.end())
      all.push_back(piece->owner);
  }
  return all;
}

}  // namespace

ShardPass::ShardPass(const torch::nn::Module& model) : shards_(owners(model)), exceptions_(std::uncaught_exceptions()) {
  for (ShardedParameters* const each : shards_) each->begin_pass(ShardedParameters::PassOf::kObject);
}

ShardPass::~ShardPass() noexcept(false) {
  const bool fails = std::uncaught_exceptions() > exceptions_;
  for (ShardedParameters* const each : shards_) {
    constexpr auto kWho = ShardedParameters::PassOf::kObject;
    fails ? each->leave_pass(kWho) : each->end_pass(kWho);
  }
}

void join_shard_passes() { PassTurns::join_all(); }

WholeParameters::WholeParameters(const torch::nn::Module& model) : held_(owners(model)) {
  for (ShardedParameters* const each : held_) each->hold();
}

WholeParameters::~WholeParameters() {
  for (ShardedParameters* const each : held_) each->let_go();
}

}  // namespace mn

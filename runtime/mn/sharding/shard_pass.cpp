#include <mn/sharding/shard_pass.hpp>

#include <algorithm>
#include <exception>

#include <mn/sharding/sharded_parameters.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {
namespace {

/// The owners of the model's sharded parameters, in the order of the model.
std::vector<ShardOwner> owners(const torch::nn::Module& model) {
  std::vector<ShardOwner> all;
  for (const at::Tensor& parameter : parameters_of(model)) {
    const auto piece = find_piece(parameter);
    if (piece && piece->owner != nullptr && std::ranges::find(all, piece->owner, &ShardOwner::shards) == all.end())
      all.push_back({piece->owner, piece->owner->life()});
  }
  return all;
}

}  // namespace

ShardPass::ShardPass(const torch::nn::Module& model) : owners_(owners(model)), exceptions_(std::uncaught_exceptions()) {
  for (const ShardOwner& each : owners_) each.shards->begin_pass(ShardedParameters::PassOf::kObject);
}

ShardPass::~ShardPass() noexcept(false) {
  const bool fails = std::uncaught_exceptions() > exceptions_;
  for (const ShardOwner& each : owners_) {
    constexpr auto kWho = ShardedParameters::PassOf::kObject;
    if (each.life.expired()) continue;
    fails ? each.shards->leave_pass(kWho) : each.shards->end_pass(kWho);
  }
}

void join_shard_passes() { PassTurns::join_all(); }

WholeParameters::WholeParameters(const torch::nn::Module& model) : owners_(owners(model)) {
  for (const ShardOwner& each : owners_) each.shards->hold();
}

WholeParameters::~WholeParameters() {
  for (const ShardOwner& each : owners_) {
    if (!each.life.expired()) each.shards->let_go();
  }
}

}  // namespace mn

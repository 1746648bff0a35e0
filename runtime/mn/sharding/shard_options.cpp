#include <mn/sharding/shard_options.hpp>

#include <string>

#include <mn/core/error.hpp>

namespace mn {

Shard parse_shard(std::string_view name) {
  if (name == "none") return Shard::kNone;
  if (name == "optimizer") return Shard::kOptimizer;
  if (name == "gradients") return Shard::kGradients;
  if (name == "parameters") return Shard::kParameters;
  throw UsageError("ranks can share none, optimizer, gradients or parameters, not " + std::string(name));
}

}  // namespace mn

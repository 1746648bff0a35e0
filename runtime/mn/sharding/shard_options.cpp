#include <mn/sharding/shard_options.hpp>

#include <algorithm>
#include <array>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"none", "optimizer", "gradients", "parameters"};  // [Shard]

}  // namespace

std::vector<std::string> shard_names() { return {kNames.begin(), kNames.end()}; }

std::string_view shard_name(Shard what) noexcept { return kNames[static_cast<std::size_t>(what)]; }

Shard parse_shard(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found != kNames.end()) return static_cast<Shard>(found - kNames.begin());
  throw UsageError("ranks can share " + join(kNames) + ", not " + std::string(name));
}

int parse_shard_group(std::string_view name) {
  if (name == "all") return ShardOptions::kAllRanks;
  if (name == "node") return ShardOptions::kNode;
  if (const auto ranks = parse_number<int>(name); ranks && *ranks > 0) return *ranks;
  throw UsageError("a group of ranks that share parameters is all, node or a number of ranks, not " +
                   std::string(name));
}

}  // namespace mn

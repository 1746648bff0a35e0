/// Options for sharding: the ranks of a multi-node optimizer divide the training state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mn {

/// The state that ranks divide (Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054). Each value includes the values above.
enum class Shard : std::uint8_t {
  kNone,        ///< each rank holds everything
  kOptimizer,   ///< the optimizer's state (ZeRO-1)
  kGradients,   ///< also the gradients (ZeRO-2)
  kParameters,  ///< also the parameters; a unit is whole only while it computes (ZeRO-3)
};

/// How the ranks of a multi-node optimizer divide a training.
struct ShardOptions {
  static constexpr int kAllRanks = 0;  ///< value of `group`: all ranks are one group
  static constexpr int kNode = -1;     ///< value of `group`: the ranks of a node are a group

  Shard what = Shard::kNone;  ///< what the ranks share
  /// Size of the groups that divide the parameters: kAllRanks, kNode (the ranks of a node), or a number of consecutive
  /// ranks. Each group holds all parameters and gathers within the group. Groups exchange only shares of the gradients.
  int group = kAllRanks;
  /// Whether the shares of the optimizer's state and of the parameters lie in page-locked memory of the host. The host
  /// then updates the parameters (Ren et al. 2021, ZeRO-Offload, arXiv:2101.06840). No effect if ranks compute on CPUs.
  bool offload = false;
  /// Whether gradients that several backwards add up (no_sync()) collect on each rank and are reduced once, as always
  /// with kOptimizer. If not, each backward is reduced: more is sent, and no rank holds all gradients.
  bool keep_gradients = false;
  /// Neighboring parameters form units until a unit has so many bytes. A unit is sent, gathered and freed as a whole.
  std::size_t unit_bytes = std::size_t{1} << 20;
};

/// The names of all values, as parse_shard() takes them: "none", "optimizer", "gradients" and "parameters".
[[nodiscard]] std::vector<std::string> shard_names();
/// The name of a value.
[[nodiscard]] std::string_view shard_name(Shard what) noexcept;
/// The value of a name.
[[nodiscard]] Shard parse_shard(std::string_view name);
/// The value of ShardOptions::group for "all", "node" or a number of ranks.
[[nodiscard]] int parse_shard_group(std::string_view name);

}  // namespace mn

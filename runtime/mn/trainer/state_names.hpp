/// How the tensors of a Trainer's checkpoint are called. Internal.
#pragma once

#include <string>

namespace mn {

// State that all ranks share.
inline const std::string kModelPrefix = "model/";
inline const std::string kExtensionPrefix = "extensions/";
/// The state of the torch optimizer of that name, the same on all ranks.
inline std::string state_prefix(const std::string& optimizer) { return "optimizer/" + optimizer + "/"; }

// State of one rank.
inline const std::string kOwnBufferPrefix = "buffer.";
/// What a multi-node optimizer keeps for each rank.
inline std::string own_prefix(const std::string& optimizer) { return "optimizer." + optimizer + "."; }
/// The state of the torch optimizer where each rank has another.
inline std::string own_state_prefix(const std::string& optimizer) { return "optimizer_state." + optimizer + "/"; }

}  // namespace mn

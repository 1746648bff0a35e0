/// Names of the tensors in a Trainer's checkpoint. Internal.
#pragma once

#include <string>

namespace mn {

// State that is equal on all ranks.
inline const std::string kModelPrefix = "model/";
inline const std::string kExtensionPrefix = "extensions/";
/// Prefix of the torch optimizer's state, if it is equal on all ranks.
inline std::string state_prefix(const std::string& optimizer) { return "optimizer/" + optimizer + "/"; }

// State of one rank.
inline const std::string kOwnBufferPrefix = "buffer.";
/// Prefix of the multi-node optimizer's state of each rank.
inline std::string own_prefix(const std::string& optimizer) { return "optimizer." + optimizer + "."; }
/// Prefix of the torch optimizer's state, if it differs between ranks.
inline std::string own_state_prefix(const std::string& optimizer) { return "optimizer_state." + optimizer + "/"; }

}  // namespace mn

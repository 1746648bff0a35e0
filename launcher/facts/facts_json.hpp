/// Facts as JSON, in which they travel.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "facts/facts.hpp"

namespace mn::launcher {

/// A fact without a value is left out.
void to_json(nlohmann::json& json, const NodeFacts& facts);
void to_json(nlohmann::json& json, const RankFacts& facts);

/// A field that is absent or null has no value; one that nobody knows is passed over. Throws DataError that names the
/// field if one has another type, or if one is absent that bindings are computed from: all ranks of a node must
/// compute the same ones.
void from_json(const nlohmann::json& json, NodeFacts& facts);
void from_json(const nlohmann::json& json, RankFacts& facts);

/// [uuid, bus id]: every rank reports its own list.
void to_json(nlohmann::json& json, const VisibleGpu& gpu);
void from_json(const nlohmann::json& json, VisibleGpu& gpu);

/// Makes `facts` at most 16 KiB as CBOR: if need be, values of environment variables become hashes (hash_of_value).
void limit_size(NodeFacts& facts);

}  // namespace mn::launcher

/// Facts as JSON, the form in which they travel.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "facts/facts.hpp"

namespace mn::launcher {

/// A fact without a value is left out.
void to_json(nlohmann::json& json, const NodeFacts& facts);
void to_json(nlohmann::json& json, const RankFacts& facts);

/// An absent or null field has no value; an unknown field is ignored. Throws DataError, with the name of the field, if
/// a field has a wrong type, or if a field is absent that bindings are computed from.
void from_json(const nlohmann::json& json, NodeFacts& facts);
void from_json(const nlohmann::json& json, RankFacts& facts);

/// As [uuid, bus id], short because every rank reports a list.
void to_json(nlohmann::json& json, const VisibleGpu& gpu);
void from_json(const nlohmann::json& json, VisibleGpu& gpu);

/// Makes `facts` at most 16 KiB as CBOR: if need be, replaces values of environment variables by hashes
/// (hash_of_value).
void limit_size(NodeFacts& facts);

}  // namespace mn::launcher

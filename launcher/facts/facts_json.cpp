#include "facts/facts_json.hpp"

#include <mn/core/json.hpp>

#include "facts/json_fields.hpp"
#include "facts/variable_value.hpp"

namespace mn::launcher {

void to_json(nlohmann::json& json, const VisibleGpu& gpu) {
  json = {gpu.uuid, gpu.bus_id};
  if (gpu.is_amd) json.push_back(true);  // marks AMD; NVIDIA's entries stay short
}

void from_json(const nlohmann::json& json, VisibleGpu& gpu) {
  json.at(0).get_to(gpu.uuid);
  json.at(1).get_to(gpu.bus_id);
  gpu.is_amd = json.size() > 2;
}

void to_json(nlohmann::json& json, const NodeFacts& facts) { json = json_fields::write(facts); }
void to_json(nlohmann::json& json, const RankFacts& facts) { json = json_fields::write(facts); }

void from_json(const nlohmann::json& json, NodeFacts& facts) { json_fields::read(json, "", facts); }
void from_json(const nlohmann::json& json, RankFacts& facts) { json_fields::read(json, "", facts); }

void limit_size(NodeFacts& facts) {
  constexpr std::size_t kMaxBytes = 16 << 10;
  if (!facts.environment || nlohmann::json::to_cbor(nlohmann::json(facts)).size() <= kMaxBytes) return;
  // Equal values have equal hashes, so nodes can still be compared.
  for (auto& [name, value] : *facts.environment) value = hash_of_value(value);
}

}  // namespace mn::launcher

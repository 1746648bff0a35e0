#include <mn/app/metadata_record.hpp>

#include <nlohmann/json.hpp>

#include <mn/core/error.hpp>

namespace mn::app {

nlohmann::json MetadataRecord::state() const { return metadata_; }

void MetadataRecord::load_state(const nlohmann::json& state) {
  if (!state.is_object()) return;
  for (const auto& [name, value] : metadata_) {
    if (!state.contains(name) || state[name] == value) continue;
    throw DataError("the checkpoint to resume is of a network whose " + name + " is " + state[name].dump() +
                        ", but this one's is \"" + value + "\"",
                    true);
  }
}

}  // namespace mn::app

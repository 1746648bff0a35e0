/// Training::metadata in checkpoints.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/trainer/extension.hpp>

namespace mn::app {

/// Keeps the metadata of the network in checkpoints, where load_metadata() reads it.
class MetadataRecord final : public Extension {
 public:
  explicit MetadataRecord(const Metadata& metadata) : metadata_(metadata) {}

  [[nodiscard]] std::string name() const override { return kModelMetadata; }
  [[nodiscard]] Interval trigger() const override { return never(); }
  [[nodiscard]] nlohmann::json state() const override;
  /// Throws DataError if the checkpoint has other metadata.
  void load_state(const nlohmann::json& state) override;

 private:
  Metadata metadata_;
};

}  // namespace mn::app

/// Records a job's options in OUT/config.ini and in checkpoints, and the metadata of its network in checkpoints.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/options.hpp>
#include <mn/trainer/extension.hpp>

namespace mn::app {

/// Stores the options in checkpoints, except options about folders and devices.
class OptionsRecord final : public Extension {
 public:
  explicit OptionsRecord(const Options& options);

  /// Rank 0 writes OUT/config.ini. After a failure it logs a warning, and tries again at the end of training.
  void write(const Trainer& trainer);

  [[nodiscard]] std::string name() const override { return "OptionsRecord"; }
  [[nodiscard]] Interval trigger() const override { return never(); }
  [[nodiscard]] nlohmann::json state() const override { return options_; }
  /// Throws if --precision gives the weights another type than in the checkpoint.
  void check_state(const nlohmann::json& state, const std::string& source) const override;
  void load_state(const nlohmann::json& state) override { earlier_ = state; }
  /// Rank 0 logs the options whose values differ from those in the checkpoint.
  void initialize(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

 private:
  std::string ini_;
  bool has_failed_ = false;
  nlohmann::json options_ = nlohmann::json::object();  // name → value, as text
  nlohmann::json earlier_ = nlohmann::json::object();
};

/// Stores the metadata of the network in checkpoints. load_metadata() reads the metadata from a checkpoint.
class MetadataRecord final : public Extension {
 public:
  explicit MetadataRecord(const Metadata& metadata) : metadata_(metadata) {}

  [[nodiscard]] std::string name() const override { return kModelMetadata; }
  [[nodiscard]] Interval trigger() const override { return never(); }
  [[nodiscard]] nlohmann::json state() const override { return metadata_; }
  /// Throws DataError if the checkpoint and this training have different values for an entry of the metadata.
  void check_state(const nlohmann::json& state, const std::string& source) const override;

 private:
  Metadata metadata_;
};

}  // namespace mn::app

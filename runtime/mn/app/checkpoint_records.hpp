/// OUT/config.ini; options and metadata of a job in checkpoints.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/options.hpp>
#include <mn/trainer/extension.hpp>

namespace mn::app {

/// Keeps the options in checkpoints, except options about folders and devices of a run. A resumed training logs the
/// options that differ from the checkpoint's.
class OptionsRecord final : public Extension {
 public:
  explicit OptionsRecord(const Options& options);

  /// Rank 0 writes OUT/config.ini. A failed write is a warning, and is retried at the end of training.
  void write(const Trainer& trainer);

  [[nodiscard]] std::string name() const override { return "OptionsRecord"; }
  [[nodiscard]] Interval trigger() const override { return never(); }
  [[nodiscard]] nlohmann::json state() const override { return options_; }
  void load_state(const nlohmann::json& state) override { earlier_ = state; }
  /// Rank 0 logs the differences.
  void initialize(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

 private:
  std::string ini_;
  bool has_failed_ = false;
  nlohmann::json options_ = nlohmann::json::object();  // name → value, as text
  nlohmann::json earlier_ = nlohmann::json::object();
};

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

/// What run_training() adds to every training: OUT/config.ini, options and metadata in checkpoints, and a check of
/// --monitor.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mn/app/setup.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/options.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extension.hpp>

namespace mn::app {

/// Keeps the options in checkpoints, except options about folders and devices of a run. A resumed training logs the
/// options that differ from the options in the checkpoint.
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
  /// Throws DataError if the checkpoint's metadata differs.
  void load_state(const nlohmann::json& state) override;

 private:
  Metadata metadata_;
};

/// Collective. Throws the same UsageError on every rank if `evaluator`, which evaluates one minibatch of this rank and
/// reports as `name`, does not report the value of --monitor. Afterwards restores `iterator`, which is the evaluator's
/// iterator, and the random numbers.
void check_validated_value(const CommonOptions& common, const std::string& name, Evaluator& evaluator,
                           Iterator& iterator, Communicator& comm);

/// Throws the same UsageError on every rank after the first iteration if the loss function does not report the value of
/// --monitor.
class MonitoredValue final : public Extension {
 public:
  /// `monitor` is --monitor; `validations` are the names of validations by the loss function, so that each reported
  /// "main/VALUE" has a "NAME/main/VALUE" for each of them.
  MonitoredValue(std::string monitor, std::vector<std::string> validations)
      : monitor_(std::move(monitor)), validations_(std::move(validations)) {}

  [[nodiscard]] std::string name() const override { return "MonitoredValue"; }
  [[nodiscard]] int priority() const override { return kPriorityWriter + 2; }  // before the log takes the values
  void run(Trainer& trainer) override;

 private:
  std::string monitor_;
  std::vector<std::string> validations_;
  bool done_ = false;
};

}  // namespace mn::app

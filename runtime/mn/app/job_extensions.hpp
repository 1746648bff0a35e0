/// Defines what run_training() adds to every training: the file OUT/config.ini, the options and the metadata in
/// checkpoints, and a check of --monitor.
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

/// Stores the options in checkpoints, except options about folders and devices. When training resumes with other
/// options than the checkpoint's, rank 0 logs the differences.
class OptionsRecord final : public Extension {
 public:
  explicit OptionsRecord(const Options& options);

  /// Rank 0 writes OUT/config.ini. If the write fails, rank 0 logs a warning, and tries again at the end of training.
  void write(const Trainer& trainer);

  [[nodiscard]] std::string name() const override { return "OptionsRecord"; }
  [[nodiscard]] Interval trigger() const override { return never(); }
  [[nodiscard]] nlohmann::json state() const override { return options_; }
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

/// Stores the metadata of the network in checkpoints, so that load_metadata() can read the metadata.
class MetadataRecord final : public Extension {
 public:
  explicit MetadataRecord(const Metadata& metadata) : metadata_(metadata) {}

  [[nodiscard]] std::string name() const override { return kModelMetadata; }
  [[nodiscard]] Interval trigger() const override { return never(); }
  [[nodiscard]] nlohmann::json state() const override { return metadata_; }
  /// Throws DataError if an entry of the metadata has another value in the checkpoint than in this training.
  void load_state(const nlohmann::json& state) override;

 private:
  Metadata metadata_;
};

/// Checks --monitor by evaluating one minibatch of this rank. `evaluator` reports its values under `name`. Throws an
/// equal UsageError on every rank if --monitor names none of the values and is misspelled or malformed; a later
/// minibatch may report any other name. Collective. Afterwards restores `iterator`, from which the evaluator reads, and
/// the state of the random numbers.
void check_validated_value(const CommonOptions& common, const std::string& name, Evaluator& evaluator,
                           Iterator& iterator, Communicator& comm);

/// Checks --monitor after the first iteration. Throws an equal UsageError on every rank if --monitor names no reported
/// value and is misspelled or malformed; a later minibatch may report any other name.
class MonitoredValue final : public Extension {
 public:
  /// `monitor` is the value of --monitor. `validations` are the names of the validations that use the loss function. If
  /// the loss function reports "main/VALUE", a validation called NAME reports "NAME/main/VALUE".
  MonitoredValue(std::string monitor, std::vector<std::string> validations)
      : monitor_(std::move(monitor)), validations_(std::move(validations)) {}

  [[nodiscard]] std::string name() const override { return "MonitoredValue"; }
  [[nodiscard]] int priority() const override { return kPriorityWriter + 2; }  // runs before the log takes the values
  void run(Trainer& trainer) override;

 private:
  std::string monitor_;
  std::vector<std::string> validations_;
  bool done_ = false;
};

}  // namespace mn::app
